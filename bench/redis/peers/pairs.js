// SPDX-License-Identifier: MIT
// Pairs of a lock library for Node, "redlock" or "redis-semaphore": reads how many, prints
// their median in nanoseconds.
'use strict';

const readline = require('readline');
const Redis = require('ioredis');

const [library, port] = process.argv.slice(2);
const client = new Redis(Number(port));
const NAME = 'bench/pair-node';

function redlock() {
    const Redlock = require('redlock');
    const locks = new Redlock([client]);
    return async () => (await locks.lock(NAME, 30000)).unlock();
}

function semaphore() {
    const { Mutex } = require('redis-semaphore');
    return async () => {
        const mutex = new Mutex(client, NAME, { lockTimeout: 30000 });
        await mutex.acquire();
        await mutex.release();
    };
}

async function main() {
    const pair = library === 'redlock' ? redlock() : semaphore();
    for await (const line of readline.createInterface({ input: process.stdin })) {
        const took = [];
        for (let i = 0; i < Number(line); i++) {
            const start = process.hrtime.bigint();
            await pair();
            took.push(Number(process.hrtime.bigint() - start));
        }
        took.sort((a, b) => a - b);
        console.log(took[Math.floor(took.length / 2)]);
    }
    client.disconnect();
}

main();
