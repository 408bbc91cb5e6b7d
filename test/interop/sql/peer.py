# SPDX-License-Identifier: MIT
"""Plain SQL sessions as peers of the interop tests; ../interop.h has the protocol. They do on
PostgreSQL and MariaDB what others do there: ShedLock (by the database's clock), Spring's
JdbcLockRegistry, with and without the column EXPIRED_AFTER, Ruby's with_advisory_lock, .NET's
DistributedLock, and whoever calls GET_LOCK or says SELECT .. FOR UPDATE. A session is psql or mariadb, and dies with this
process.
"""
import ctypes
import datetime
import hashlib
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
import zlib

import actors

POLL_S = 0.05
# what has no lease of its own in an older table: all in a fleet have the same
OLD_TTL_MS = 3000
DEFAULT_LEASE_MS = 5000
END = "the-end"
PR_SET_PDEATHSIG = 1

libc = ctypes.CDLL(None)


class Refused(Exception):
    """The database's word: a key is there already, or the lock was not to be had in time."""


class Session:
    """run(text) returns rows of texts, and how many rows were changed."""

    def __init__(self, words, last):
        self.last = last
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, bufsize=1,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))

    def run(self, text):
        self.process.stdin.write("%s;\n%s\n" % (text, self.last))
        self.process.stdin.flush()
        rows = []
        for line in self.process.stdout:
            if line.startswith(END):
                return rows, int(line.split()[1])
            if line.startswith("ERROR"):
                self.skip()
                raise Refused(line)
            rows.append(line.split())
        raise RuntimeError("the session is over: %r" % rows)

    def skip(self):
        for line in self.process.stdout:
            if line.startswith(END):
                return

    def end(self):
        self.process.kill()
        self.process.wait()


class Postgres:
    now = "timezone('utc', CURRENT_TIMESTAMP)"

    def open(self, url):
        self.url = url

    def session(self):
        return Session(["psql", "-XAtq", self.url],
                       "\\echo %s :ROW_COUNT" % END)

    def later(self, ms):
        return "%s + interval '%d milliseconds'" % (self.now, ms)

    insert = "INSERT INTO {0} ON CONFLICT (name) DO NOTHING"
    row_wait = "SET LOCAL lock_timeout = %d"


class Mariadb:
    now = "UTC_TIMESTAMP(3)"

    def open(self, url):
        self.user, rest = url.split("://")[1].split("@")
        self.host, rest = rest.split(":")
        self.port, self.database = rest.split("/")

    def session(self):
        made = Session(["mariadb", "--no-defaults", "-NBfn", "-u", self.user, "-h", self.host,
                        "-P", self.port, self.database],
                       "SELECT '%s', ROW_COUNT();" % END)
        made.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
        return made

    def later(self, ms):
        return "TIMESTAMPADD(MICROSECOND, %d, %s)" % (1000 * ms, self.now)

    insert = "INSERT IGNORE INTO {0}"
    row_wait = "SET SESSION innodb_lock_wait_timeout = CEILING(%d / 1000)"


class World:
    """Which database that is; and one session for each thread."""

    def __init__(self):
        self.own = threading.local()

    def open(self, url):
        self.database = Postgres() if url.startswith("postgres") else Mariadb()
        self.database.open(url)

    def run(self, text):
        if not hasattr(self.own, "session"):
            self.own.session = self.database.session()
        return self.own.session.run(text)


world = World()


class Polled:
    """A lock that can only be tried, again and again."""

    token = 0
    lease_ms = DEFAULT_LEASE_MS

    def __init__(self, actor, kind, name):
        self.name = name

    def acquire(self, wait_ms):
        until = time.monotonic() + wait_ms / 1000
        while not self.attempt():
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True


class ShedLock(Polled):
    """Its row is inserted once; after that it is only updated. Who that is, is the host."""

    inserted = set()
    by = socket.gethostname()

    def attempt(self):
        if self.name not in self.inserted:
            self.inserted.add(self.name)
            if self.insert():
                return True
        at = world.database
        return world.run(
            "UPDATE shedlock SET lock_until = %s, locked_at = %s, locked_by = '%s' "
            "WHERE name = '%s' AND lock_until <= %s"
            % (at.later(self.lease_ms), at.now, self.by, self.name, at.now))[1] > 0

    def insert(self):
        at = world.database
        row = "shedlock (name, lock_until, locked_at, locked_by) VALUES ('%s', %s, %s, '%s')"
        row = row % (self.name, at.later(self.lease_ms), at.now, self.by)
        return world.run(at.insert.format(row))[1] > 0

    def release(self):
        # a hold that is over already, and nobody's yet, is set to now as well
        return world.run("UPDATE shedlock SET lock_until = %s "
                         "WHERE name = '%s' AND locked_by = '%s'"
                         % (world.database.now, self.name, self.by))[1] > 0

    def held(self):
        rows = world.run("SELECT 1 FROM shedlock WHERE name = '%s' AND locked_by = '%s' "
                         "AND lock_until > %s" % (self.name, self.by, world.database.now))
        return len(rows[0]) == 1


class Spring(Polled):
    """Threads of a process exclude each other by a lock of the process; the table knows
    processes only. Its clock is the client's."""

    client = str(uuid.uuid4())
    threads = {}
    making = threading.Lock()

    def __init__(self, actor, kind, name):
        super().__init__(actor, kind, name)
        digest = bytearray(hashlib.md5(name.encode()).digest())
        self.key = str(uuid.UUID(bytes=bytes(digest), version=3))
        with self.making:
            self.mine = self.threads.setdefault(name, threading.Lock())

    def at(self, ms=0):
        when = datetime.datetime.utcnow() + datetime.timedelta(milliseconds=ms)
        return when.strftime("'%Y-%m-%d %H:%M:%S.%f'")

    def values(self):
        return {"CREATED_DATE": self.at(), "EXPIRED_AFTER": self.at(self.lease_ms)}

    def over(self):
        return "EXPIRED_AFTER < " + self.at()

    where = "LOCK_KEY = '{0.key}' AND REGION = 'DEFAULT'"

    def attempt(self):
        if not self.mine.acquire(blocking=False):
            return False
        if self.take():
            return True
        self.mine.release()
        return False

    def take(self):
        values = self.values()
        pairs = ", ".join("%s = %s" % pair for pair in values.items())
        if world.run("UPDATE INT_LOCK SET CLIENT_ID = '%s', %s WHERE %s AND "
                     "(CLIENT_ID = '%s' OR %s)" % (self.client, pairs, self.where.format(self),
                                                   self.client, self.over()))[1] > 0:
            return True
        try:
            world.run("INSERT INTO INT_LOCK (REGION, LOCK_KEY, CLIENT_ID, %s) "
                      "VALUES ('DEFAULT', '%s', '%s', %s)"
                      % (", ".join(values), self.key, self.client,
                         ", ".join(values.values())))
            return True
        except Refused as problem:
            if "uplicate" not in str(problem):
                raise
            return False

    def release(self):
        gone = world.run("DELETE FROM INT_LOCK WHERE %s AND CLIENT_ID = '%s'"
                         % (self.where.format(self), self.client))[1]
        self.mine.release()
        return gone > 0

    def held(self):
        return len(world.run("SELECT 1 FROM INT_LOCK WHERE %s AND CLIENT_ID = '%s' AND NOT "
                             "(%s)" % (self.where.format(self), self.client,
                                       self.over()))[0]) == 1


class OldSpring(Spring):
    def values(self):
        return {"CREATED_DATE": self.at()}

    def over(self):
        return "CREATED_DATE < " + self.at(-OLD_TTL_MS)


class Bound:
    """A lock that belongs to a session: each has its own."""

    token = 0
    lease_ms = 0

    def __init__(self, actor, kind, name):
        self.name = name
        self.session = world.database.session()

    def acquire(self, wait_ms):
        if self.take(wait_ms):
            return True
        self.session.end()
        return False

    def says(self, text, *answers):
        return self.session.run("SELECT " + text)[0][-1][0] in answers

    def release(self):
        try:
            return self.give()
        finally:
            self.session.end()


class Advisory(Bound):
    def give(self):
        return self.says("pg_advisory_unlock(%s)" % self.key(), "t")

    def held(self):
        return self.says("count(*) FROM pg_locks WHERE locktype = 'advisory' AND granted "
                         "AND pid = pg_backend_pid()", "1")


class Rails(Advisory):
    """with_advisory_lock: two numbers, and tries."""

    def key(self):
        return "%d, 0" % (zlib.crc32(self.name.encode()) & 0x7FFFFFFF)

    def take(self, wait_ms):
        until = time.monotonic() + wait_ms / 1000
        while not self.says("pg_try_advisory_lock(%s)" % self.key(), "t"):
            if time.monotonic() >= until:
                return False
            time.sleep(POLL_S)
        return True


class Dotnet(Advisory):
    """.NET, a name of more than 9 characters: one number; and waits in the server."""

    def key(self):
        digest = hashlib.sha1(self.name.encode()).digest()
        return str(int.from_bytes(digest[:8], "little", signed=True))

    def take(self, wait_ms):
        if wait_ms == 0:
            return self.says("pg_try_advisory_lock(%s)" % self.key(), "t")
        self.session.run("SET lock_timeout = %d" % wait_ms)
        try:
            self.session.run("SELECT pg_advisory_lock(%s)" % self.key())
            return True
        except Refused as problem:
            if "lock timeout" not in str(problem):
                raise
            return False


class GetLock(Bound):
    def take(self, wait_ms):
        return self.says("GET_LOCK('%s', %f)" % (self.name, wait_ms / 1000), "1")

    def give(self):
        return self.says("RELEASE_LOCK('%s')" % self.name, "1")

    def held(self):
        return self.says("IS_USED_LOCK('%s') = CONNECTION_ID()" % self.name, "1")


class Row(Bound):
    """SELECT .. FOR UPDATE in a transaction that stays open; its row is put there once."""

    def lock(self, how):
        try:
            return len(self.session.run("SELECT 1 FROM dibs_rows WHERE name = '%s' FOR UPDATE %s"
                                        % (self.name, how))[0]) == 1
        except Refused as problem:
            if "lock" not in str(problem).lower():
                raise
            return False

    def take(self, wait_ms):
        at = world.database
        if not self.session.run("SELECT 1 FROM dibs_rows WHERE name = '%s'" % self.name)[0]:
            self.session.run(at.insert.format("dibs_rows (name) VALUES ('%s')" % self.name))
        self.session.run("BEGIN")
        self.session.run(at.row_wait % max(wait_ms, 1))
        return self.lock("NOWAIT" if wait_ms == 0 else "")

    def give(self):
        self.session.run("COMMIT")
        return True

    def held(self):
        return self.lock("NOWAIT")


KINDS = {"shedlock": ShedLock, "spring": Spring, "oldspring": OldSpring, "rails": Rails,
         "dotnet": Dotnet, "get_lock": GetLock, "row": Row}

actors.serve_locks(world, KINDS[sys.argv[1]])
