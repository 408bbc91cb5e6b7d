# SPDX-License-Identifier: MIT
"""redis-py as a peer of the interop tests; ../interop.h has the protocol.

KIND plain is the Lock of redis-py. Kind getset is the Lock that redis-py had up to 2.9
(SETNX, GET and GETSET of time stamps): there this program runs with that version on its
path.
"""
import inspect
import queue
import sys
import threading
import time

import redis

POLL_S = 0.02
COUNT_LEASE_MS = 5000
COUNT_WAIT_MS = 60000

clients = {}
holds = {}
printing = threading.Lock()


def say(actor, text):
    with printing:
        print(actor, text.replace("\n", " "), flush=True)


def new_lock(name, lease_ms):
    options = {"timeout": lease_ms / 1000, "sleep": POLL_S}
    if "thread_local" in inspect.signature(clients["redis"].lock).parameters:
        options["thread_local"] = False
    return clients["redis"].lock(name, **options)


def acquire(lock, wait_ms):
    if wait_ms == 0:
        return lock.acquire(blocking=False)
    if "blocking_timeout" in inspect.signature(lock.acquire).parameters:
        return lock.acquire(blocking=True, blocking_timeout=wait_ms / 1000)
    # the old Lock knows only once or for ever
    until = time.monotonic() + wait_ms / 1000
    while not lock.acquire(blocking=False):
        if time.monotonic() > until:
            return False
        time.sleep(POLL_S)
    return True


def release(lock):
    try:
        lock.release()
        return "ok"
    except (ValueError, getattr(redis.exceptions, "LockError", ValueError)):
        return "lost"


def owned(lock):
    if hasattr(lock, "owned"):
        return lock.owned()
    # the old Lock knows its hold by the time stamp
    return float(clients["redis"].get(lock.name) or 0) == lock.acquired_until


def count(name, rounds, path):
    for _ in range(rounds):
        lock = new_lock(name, COUNT_LEASE_MS)
        if not acquire(lock, COUNT_WAIT_MS):
            return "error the lock was not to be had"
        with open(path) as file:
            number = int(file.read())
        time.sleep(0.001)
        with open(path, "w") as file:
            file.write("%d\n" % (number + 1))
        if release(lock) != "ok":
            return "error the lock was lost"
    return "done %d" % rounds


def obey(actor, verb, args):
    if verb == "open":
        host, port = args[0].split("://")[1].split(":")
        clients["redis"] = redis.StrictRedis(host=host, port=int(port))
        clients["redis"].ping()
        return "ok"
    name = args[1]
    if verb == "lock":
        lock = new_lock(name, int(args[2]))
        if not acquire(lock, int(args[3])):
            return "busy"
        holds[actor, name] = lock
        return "ok 0"
    if verb == "unlock":
        return release(holds.pop((actor, name)))
    if verb == "held":
        return "yes" if owned(holds[actor, name]) else "no"
    if verb == "count":
        return count(name, int(args[2]), args[3])
    return "error unknown verb"


def act(actor, orders):
    while True:
        verb, *args = orders.get()
        try:
            say(actor, obey(actor, verb, args))
        except Exception as problem:
            say(actor, "error %r" % problem)


def main():
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
