# SPDX-License-Identifier: MIT
"""Pairs of kazoo's Lock: reads how many, prints their median in nanoseconds."""
import statistics
import sys
import time

from kazoo.client import KazooClient

client = KazooClient(hosts="127.0.0.1:" + sys.argv[1], timeout=30)
client.start()
lock = client.Lock("/bench-kazoo/pair")
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        start = time.perf_counter_ns()
        lock.acquire()
        lock.release()
        took.append(time.perf_counter_ns() - start)
    print(statistics.median(took), flush=True)
