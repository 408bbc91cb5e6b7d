// SPDX-License-Identifier: MIT
// Pairs of the lock of npm's etcd3: reads how many, prints their median in nanoseconds.
'use strict';

const readline = require('readline');
const { Etcd3 } = require('etcd3');

const client = new Etcd3({ hosts: 'http://127.0.0.1:' + process.argv[2] });

async function main() {
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const took = [];
        for (let i = 0; i < Number(line); i++) {
            const start = process.hrtime.bigint();
            const lock = client.lock('bench-etcd3/pair');
            await lock.acquire();
            await lock.release();
            took.push(Number(process.hrtime.bigint() - start));
        }
        took.sort((a, b) => a - b);
        console.log(took[Math.floor(took.length / 2)]);
    }
    client.close();
}

main();
