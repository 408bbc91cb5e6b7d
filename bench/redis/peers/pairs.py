# SPDX-License-Identifier: MIT
"""Pairs of redis-py's Lock: reads how many, prints their median in nanoseconds."""
import statistics
import sys
import time

import redis

client = redis.Redis(port=int(sys.argv[1]))
for line in sys.stdin:
    took = []
    for _ in range(int(line)):
        start = time.perf_counter_ns()
        lock = client.lock("bench/pair-py", timeout=30)
        lock.acquire()
        lock.release()
        took.append(time.perf_counter_ns() - start)
    print(statistics.median(took), flush=True)
