# SPDX-License-Identifier: MIT
"""etcd's own lock and election services, over its JSON gateway, as a peer of the interop
tests; ../interop.h has the protocol. The server does what a client of Go would do; jetcd and
others use them. Every lock has a lease of its own, which is kept here.

KIND mutex is /v3/lock/lock, latch is /v3/election/campaign.
"""
import base64
import http.client
import json
import threading

import actors

LEASE_S = 2
KEEP_S = 0.5
ASK_S = 10
# neither can try: so long they may take for what is free
TRY_MS = 500
TOKEN_ROOM = 256


def text64(text):
    return base64.b64encode(text.encode()).decode()


class Services:
    def open(self, url):
        self.host = url.split("://")[1]

    def ask(self, path, body, limit_s=ASK_S):
        """The answer. TimeoutError: it did not come until then, and is not wanted."""
        connection = http.client.HTTPConnection(self.host, timeout=limit_s)
        try:
            connection.request("POST", "/v3" + path, json.dumps(body))
            answer = connection.getresponse()
            said = json.loads(answer.read())
        finally:
            connection.close()
        if answer.status != 200:
            raise RuntimeError("%s: %s" % (path, said))
        return said

    def leader(self, name):
        said = self.ask("/election/leader", {"name": text64(name)})
        return base64.b64decode(said["kv"].get("value", "")).decode()


services = Services()


class Lock:
    def __init__(self, actor, kind, name):
        self.value, self.kind, self.name = "actor" + actor, kind, name

    def begin(self):
        self.lease = services.ask("/lease/grant", {"TTL": LEASE_S})["ID"]
        self.ended = threading.Event()
        threading.Thread(target=self.keep, daemon=True).start()

    def keep(self):
        while not self.ended.wait(KEEP_S):
            services.ask("/lease/keepalive", {"ID": self.lease})

    def end(self):
        self.ended.set()
        services.ask("/lease/revoke", {"ID": self.lease})

    def ask(self, limit_s):
        body = {"name": text64(self.name), "lease": self.lease}
        if self.kind == "mutex":
            return services.ask("/lock/lock", body, limit_s)["key"]
        body["value"] = text64(self.value)
        self.leader = services.ask("/election/campaign", body, limit_s)["leader"]
        return self.leader["key"]

    def acquire(self, wait_ms):
        self.begin()
        try:
            self.key = self.ask(None if wait_ms < 0 else max(wait_ms, TRY_MS) / 1000)
        except TimeoutError:
            self.end()
            return False
        self.token = int(self.find()[0]["create_revision"]) * TOKEN_ROOM
        return True

    def find(self):
        return services.ask("/kv/range", {"key": self.key}).get("kvs", [])

    def held(self):
        return len(self.find()) == 1

    def release(self):
        was_held = self.held()
        if self.kind == "mutex":
            services.ask("/lock/unlock", {"key": self.key})
        else:
            services.ask("/election/resign", {"leader": self.leader})
        if was_held:
            self.end()
        self.ended.set()
        return was_held


actors.serve_locks(services, Lock)
