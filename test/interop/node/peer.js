// SPDX-License-Identifier: MIT
// node-redlock as a peer of the interop tests; ../interop.h has the protocol. Its first
// argument is the package: "redlock" (4.2) or "redlock5" (the 5.0 beta). The packages
// are found by NODE_PATH.
'use strict';

const fs = require('fs');
const readline = require('readline');
const Redis = require('ioredis');

const version = process.argv[2];
const Redlock = version === 'redlock5' ? require('redlock5').default : require('redlock');

const POLL_MS = 20;
const COUNT_LEASE_MS = 3000;
const COUNT_WAIT_MS = 60000;

const holds = new Map();
const turns = new Map();
let clients = [];

function open(url) {
    clients = url.split('://')[1].split(',').map((host) => {
        const [address, port] = host.split(':');
        const client = new Redis({ host: address, port: Number(port),
            commandTimeout: 500, retryStrategy: () => 50 });
        // a server that is down is what a majority is for
        client.on('error', () => {});
        client.on('close', () => { client.options.enableOfflineQueue = false; });
        return client;
    });
}

function redlock(waitMs) {
    return new Redlock(clients, { retryCount: Math.floor(waitMs / POLL_MS),
        retryDelay: POLL_MS, retryJitter: POLL_MS / 2 });
}

async function acquire(name, leaseMs, waitMs) {
    const library = redlock(waitMs);
    library.on('error', () => {});
    return version === 'redlock5' ? library.acquire([name], leaseMs)
        : library.lock(name, leaseMs);
}

async function release(hold) {
    try {
        await (version === 'redlock5' ? hold.release() : hold.unlock());
        return 'ok';
    } catch (problem) {
        return 'lost';
    }
}

async function count(name, rounds, file) {
    for (let i = 0; i < rounds; i++) {
        const hold = await acquire(name, COUNT_LEASE_MS, COUNT_WAIT_MS);
        const number = Number(await fs.promises.readFile(file, 'utf8'));
        await new Promise((go) => setTimeout(go, 1));
        await fs.promises.writeFile(file, `${number + 1}\n`);
        if (await release(hold) !== 'ok') {
            return 'error the lock was lost';
        }
    }
    return `done ${rounds}`;
}

async function lock(key, name, leaseMs, waitMs) {
    try {
        holds.set(key, await acquire(name, leaseMs, waitMs));
        return 'ok 0';
    } catch (problem) {
        if (/LockError|ExecutionError/.test(problem.name)) {
            return 'busy';
        }
        throw problem;
    }
}

async function held(key, name) {
    const values = await Promise.all(clients.map((c) => c.get(name).catch(() => null)));
    const mine = values.filter((value) => value === holds.get(key).value).length;
    return mine > clients.length / 2 ? 'yes' : 'no';
}

async function obey(actor, verb, args) {
    const key = `${actor} ${args[1]}`;
    switch (verb) {
    case 'open':
        open(args[0]);
        return 'ok';
    case 'lock':
        return lock(key, args[1], Number(args[2]), Number(args[3]));
    case 'unlock':
        return release(holds.get(key));
    case 'held':
        return held(key, args[1]);
    case 'count':
        return count(args[1], Number(args[2]), args[3]);
    default:
        return 'error unknown verb';
    }
}

async function act(actor, verb, args) {
    let text;
    try {
        text = await obey(actor, verb, args);
    } catch (problem) {
        text = `error ${problem}`.replace(/\n/g, ' ');
    }
    process.stdout.write(`${actor} ${text}\n`);
}

readline.createInterface({ input: process.stdin }).on('line', (line) => {
    const [actor, verb, ...args] = line.split(' ');
    if (verb === 'quit') {
        process.exit(0);
    }
    // one thing after another for each actor
    const before = turns.get(actor) || Promise.resolve();
    turns.set(actor, before.then(() => act(actor, verb, args)));
}).on('close', () => process.exit(0));
