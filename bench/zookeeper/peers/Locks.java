// SPDX-License-Identifier: MIT
// Curator's InterProcessMutex. Reads how many uncontended pairs to do, and prints their
// median in nanoseconds. "begin" has 16 clients, each with a session of its own, fight for
// one lock until "end"; "grants" prints how many grants there were. Who lets go asks again
// when another one has got it, so that every grant is a hand-over.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.ExponentialBackoffRetry;

public class Locks {
    private static final int CLIENTS = 16;

    private final String hosts;
    private final InterProcessMutex own;
    private final AtomicLong grants = new AtomicLong();
    private final AtomicBoolean inside = new AtomicBoolean();
    private final Object changed = new Object();
    private InterProcessMutex[] crowd;
    private Thread[] threads;
    private volatile boolean stop;

    Locks(String port) {
        hosts = "127.0.0.1:" + port;
        own = new InterProcessMutex(connect(), "/bench-java/pair");
    }

    private CuratorFramework connect() {
        CuratorFramework client = CuratorFrameworkFactory.newClient(
            hosts, 30000, 15000, new ExponentialBackoffRetry(100, 5));
        client.start();
        return client;
    }

    private long pairs(int count) throws Exception {
        long[] took = new long[count];
        for (int i = 0; i < count; i++) {
            long start = System.nanoTime();
            own.acquire();
            own.release();
            took[i] = System.nanoTime() - start;
        }
        Arrays.sort(took);
        return took[count / 2];
    }

    private long enter() {
        if (!inside.compareAndSet(false, true)) {
            System.exit(1);
        }
        long grant = grants.incrementAndGet();
        synchronized (changed) {
            changed.notifyAll();
        }
        inside.set(false);
        return grant;
    }

    private void fight(InterProcessMutex mutex) {
        try {
            while (!stop) {
                mutex.acquire();
                long grant = enter();
                mutex.release();
                synchronized (changed) {
                    while (!stop && grants.get() == grant) {
                        changed.wait(50);
                    }
                }
            }
        } catch (Exception failure) {
            System.exit(1);
        }
    }

    private long begin() {
        if (crowd == null) {
            crowd = new InterProcessMutex[CLIENTS];
            for (int i = 0; i < CLIENTS; i++) {
                crowd[i] = new InterProcessMutex(connect(), "/bench-java/handover");
            }
        }
        stop = false;
        threads = new Thread[CLIENTS];
        for (int i = 0; i < CLIENTS; i++) {
            InterProcessMutex mutex = crowd[i];
            threads[i] = new Thread(() -> fight(mutex));
            threads[i].start();
        }
        return 0;
    }

    private long end() throws Exception {
        stop = true;
        for (Thread thread : threads) {
            thread.join();
        }
        return 0;
    }

    private long obey(String order) throws Exception {
        switch (order) {
            case "begin":
                return begin();
            case "end":
                return end();
            case "grants":
                return grants.get();
            default:
                return pairs(Integer.parseInt(order));
        }
    }

    public static void main(String[] args) throws Exception {
        Locks locks = new Locks(args[0]);
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            System.out.println(locks.obey(line.trim()));
            System.out.flush();
        }
        System.exit(0);
    }
}
