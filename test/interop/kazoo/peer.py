# SPDX-License-Identifier: MIT
"""kazoo as a peer of the interop tests; ../interop.h has the protocol.

KIND mutex is its Lock, read and write are its ReadLock and WriteLock. There are no leases:
what is held is held for as long as the session lasts.
"""
import logging
import queue
import sys
import threading
import time

from kazoo.client import KazooClient
from kazoo.exceptions import LockTimeout

# what a lease of 0 in "lock" means: the session lasts so long, and is kept
KEPT_S = 1.5
CONNECT_S = 10
COUNT_WAIT_MS = 60000

world = {}
holds = {}
printing = threading.Lock()


def say(actor, text):
    with printing:
        print(actor, text.replace("\n", " "), flush=True)


def new_lock(actor, kind, name):
    client = world["client"]
    make = {"mutex": client.Lock, "read": client.ReadLock, "write": client.WriteLock}
    return make[kind](world["root"] + "/" + name, "actor" + actor)


def acquire(lock, wait_ms):
    if wait_ms == 0:
        return lock.acquire(blocking=False)
    try:
        return lock.acquire(timeout=wait_ms / 1000 if wait_ms > 0 else None)
    except LockTimeout:
        return False


def count(actor, kind, name, rounds, path):
    for _ in range(rounds):
        lock = new_lock(actor, kind, name)
        if not acquire(lock, COUNT_WAIT_MS):
            return "error the lock was not to be had"
        with open(path) as file:
            number = int(file.read())
        time.sleep(0.001)
        with open(path, "w") as file:
            file.write("%d\n" % (number + 1))
        if not lock.release():
            return "error the lock was lost"
    return "done %d" % rounds


def start_client(url):
    hosts, _, root = url.split("://")[1].partition("/")
    world["root"] = "/" + root
    world["client"] = KazooClient(hosts=hosts, timeout=KEPT_S)
    world["client"].start(timeout=CONNECT_S)


def is_there(lock):
    return world["client"].exists(lock.path + "/" + lock.node) is not None


def obey(actor, verb, args):
    if verb == "open":
        start_client(args[0])
        return "ok"
    kind, name = args[:2]
    if verb == "lock":
        lock = new_lock(actor, kind, name)
        if not acquire(lock, int(args[3])):
            return "busy"
        holds[actor, name] = lock
        return "ok 0"
    if verb == "unlock":
        return "ok" if holds.pop((actor, name)).release() else "lost"
    if verb == "held":
        return "yes" if is_there(holds[actor, name]) else "no"
    if verb == "count":
        return count(actor, kind, name, int(args[2]), args[3])
    return "error unknown verb"


def act(actor, orders):
    while True:
        verb, *args = orders.get()
        try:
            say(actor, obey(actor, verb, args))
        except Exception as problem:
            say(actor, "error %r" % problem)


def main():
    logging.disable(logging.CRITICAL)
    actors = {}
    for line in sys.stdin:
        actor, *words = line.split()
        if words[0] == "quit":
            return
        if actor not in actors:
            actors[actor] = queue.Queue()
            threading.Thread(target=act, args=(actor, actors[actor]), daemon=True).start()
        actors[actor].put(words)


main()
