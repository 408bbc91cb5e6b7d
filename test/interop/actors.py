# SPDX-License-Identifier: MIT
"""What peers that are written in Python share: the protocol of interop.h.

serve(obey) gives each actor a thread, and obey its orders: obey(actor, verb, args) returns
the answer. add_one is what "count" does while it has the lock.
"""
import queue
import sys
import threading
import time

COUNT_WAIT_MS = 60000

printing = threading.Lock()


def say(actor, text):
    with printing:
        print(actor, text.replace("\n", " "), flush=True)


def add_one(path):
    with open(path) as file:
        number = int(file.read())
    time.sleep(0.001)
    with open(path, "w") as file:
        file.write("%d\n" % (number + 1))


def act(obey, actor, orders):
    while True:
        verb, *args = orders.get()
        try:
            say(actor, obey(actor, verb, args))
        except Exception as problem:
            say(actor, "error %r" % problem)


def serve(obey):
    actors = {}
    for line in sys.stdin:
        actor, *words = line.split()
        if words[0] == "quit":
            return
        if actor not in actors:
            actors[actor] = queue.Queue()
            threading.Thread(target=act, args=(obey, actor, actors[actor]),
                             daemon=True).start()
        actors[actor].put(words)


def count_with(new_lock):
    def count(kind, name, rounds, path):
        for _ in range(rounds):
            lock = new_lock("0", kind, name)
            if not lock.acquire(COUNT_WAIT_MS):
                return "error the lock was not to be had"
            add_one(path)
            if not lock.release():
                return "error the lock was lost"
        return "done %d" % rounds

    return count


def serve_locks(world, new_lock, count=None):
    """Serves with locks: new_lock(actor, kind, name) has acquire(wait_ms), which says
    whether it was had, release(), held(), and token, all as the protocol has them, and is
    told its lease_ms.
    world has open(url) and leader(name)."""
    holds = {}
    count = count or count_with(new_lock)

    def obey(actor, verb, args):
        if verb == "open":
            world.open(args[0])
            return "ok"
        if verb == "leader":
            return "leader " + world.leader(args[0])
        kind, name = args[:2]
        if verb == "lock":
            lock = new_lock(actor, kind, name)
            lock.lease_ms = int(args[2])
            if not lock.acquire(int(args[3])):
                return "busy"
            holds[actor, name] = lock
            return "ok %d" % lock.token
        if verb == "unlock":
            return "ok" if holds.pop((actor, name)).release() else "lost"
        if verb == "held":
            return "yes" if holds[actor, name].held() else "no"
        if verb == "count":
            return count(kind, name, int(args[2]), args[3])
        return "error unknown verb"

    serve(obey)
