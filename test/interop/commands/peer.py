# SPDX-License-Identifier: MIT
"""The commands etcdctl and consul as a peer of the interop tests; ../interop.h has the
protocol. Each lock is a process of its own, and dies with this one.

KIND mutex is `etcdctl lock` and `consul lock`, latch is `etcdctl elect`, semN is `consul
lock -n N`. The sessions of etcdctl's locks last 2 s, those of elect 60 s and of consul 15 s:
those cannot be told.
"""
import ctypes
import os
import select
import signal
import subprocess
import sys
import time

import actors

LOCK_TTL_S = 2
# neither can try: so long they may take for what is free
TRY_MS = 1500
END_S = 20
PR_SET_PDEATHSIG = 1
KEEP_GOING = "printf '%s\\n' held; exec cat >/dev/null"

libc = ctypes.CDLL(None)


def die_with_us():
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(words):
    # unbuffered: what select says is all there is
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, bufsize=0, preexec_fn=die_with_us)


class Etcdctl:
    """It says the key and what is in it when it has the lock, and ends it when it is
    asked to end itself."""

    def open(self, url):
        os.environ["ETCDCTL_API"] = "3"
        os.environ["ETCDCTL_ENDPOINTS"] = url.split("://")[1]

    def lock(self, actor, kind, name, wait_ms):
        if kind == "latch":
            return ["etcdctl", "elect", name, "actor" + actor]
        return ["etcdctl", "lock", "--ttl=%d" % LOCK_TTL_S, name]

    def has_it(self, name, line):
        return line.startswith(name + "/")

    def end(self, process):
        process.send_signal(signal.SIGTERM)

    def run(self, kind, name, script):
        return ["etcdctl", "lock", name, "--", "sh", "-c", script]

    def leader(self, name):
        process = start(["etcdctl", "elect", "-l", name])
        try:
            key, value = read_line(process, 10000), read_line(process, 10000)
            return value if key.startswith(name + "/") else "(%s)" % key
        finally:
            process.kill()
            process.wait()


class Consul:
    """Its child says that it has the lock, and ends with what it reads."""

    def open(self, url):
        os.environ["CONSUL_HTTP_ADDR"] = url.split("://")[1]

    def words(self, kind, name, *more):
        limit = kind[3:] if kind.startswith("sem") else "1"
        return ["consul", "lock", "-n=" + limit, *more, name]

    def lock(self, actor, kind, name, wait_ms):
        limit = [] if wait_ms < 0 else ["-timeout=%dms" % max(wait_ms, TRY_MS)]
        return self.words(kind, name, "-pass-stdin", *limit) + [KEEP_GOING]

    def has_it(self, name, line):
        return line == "held"

    def end(self, process):
        process.stdin.close()

    def run(self, kind, name, script):
        return self.words(kind, name, "-child-exit-code") + [script]


commands = {"etcdctl": Etcdctl(), "consul": Consul()}[sys.argv[1]]


def read_line(process, wait_ms):
    """The next line, or None: there is none until then, or no more."""
    until = None if wait_ms < 0 else time.monotonic() + wait_ms / 1000
    line = b""
    while not line.endswith(b"\n"):
        left = None if until is None else max(0, until - time.monotonic())
        if not select.select([process.stdout], [], [], left)[0]:
            return None
        byte = process.stdout.read(1)
        if not byte:
            break
        line += byte
    return line.decode().rstrip("\n") if line else None


class Lock:
    token = 0

    def __init__(self, actor, kind, name):
        self.words = actor, kind, name

    def acquire(self, wait_ms):
        self.process = start(commands.lock(*self.words, wait_ms))
        line = read_line(self.process, wait_ms if wait_ms < 0 else max(wait_ms, TRY_MS))
        if line is not None and commands.has_it(self.words[2], line):
            return True
        if line is not None and "timeout" not in line and "Shutdown" not in line:
            self.end()
            raise RuntimeError(line)
        self.end()
        return False

    def end(self):
        if self.process.poll() is None:
            commands.end(self.process)
        return self.process.wait(timeout=END_S)

    def held(self):
        return self.process.poll() is None

    def release(self):
        return self.held() and self.end() == 0


SCRIPT = "read n <'{0}' && sleep 0.001 && echo $((n + 1)) >'{0}'"


def count(kind, name, rounds, path):
    """As people use it: a command is run while the lock is had."""
    for _ in range(rounds):
        process = start(commands.run(kind, name, SCRIPT.format(path)))
        text = process.communicate(timeout=actors.COUNT_WAIT_MS / 1000)[0]
        if process.returncode != 0:
            return "error %d %s" % (process.returncode, text.decode())
    return "done %d" % rounds


actors.serve_locks(commands, Lock, count)
