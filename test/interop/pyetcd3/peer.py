# SPDX-License-Identifier: MIT
"""python-etcd3 as a peer of the interop tests; ../interop.h has the protocol. KIND single is
its Lock, which is refreshed here for as long as it is held."""
import os
import threading

# what it was generated for is older than the protobuf of today
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

import etcd3

import actors

TTL_S = 2
REFRESH_S = 0.5


class World:
    def open(self, url):
        host, _, port = url.split("://")[1].partition(":")
        self.client = etcd3.client(host=host, port=int(port), timeout=10)


world = World()


class Lock:
    token = 0

    def __init__(self, actor, kind, name):
        self.lock = world.client.lock(name, ttl=TTL_S)
        self.ended = threading.Event()

    def acquire(self, wait_ms):
        if not self.lock.acquire(timeout=None if wait_ms < 0 else wait_ms / 1000):
            return False
        threading.Thread(target=self.refresh, daemon=True).start()
        return True

    def refresh(self):
        while not self.ended.wait(REFRESH_S):
            self.lock.refresh()

    def held(self):
        return self.lock.is_acquired()

    def release(self):
        self.ended.set()
        return self.lock.release()


actors.serve_locks(world, Lock)
