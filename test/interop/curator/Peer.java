// SPDX-License-Identifier: MIT
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.retry.RetryNTimes;

/**
 * Curator as a peer of the interop tests; ../interop.h has the protocol. An actor is a
 * thread, because to Curator the owner of a lock is a thread. There are no leases: what is
 * held is held for as long as the session lasts.
 */
public final class Peer {
    /** What a lease of 0 in "lock" means: the session lasts so long, and is kept. */
    private static final int KEPT_MS = 1500;
    private static final int CONNECT_MS = 10_000;
    private static final long COUNT_WAIT_MS = 60_000;
    /** A latch is asked for in the background: so long is one try. */
    private static final long LATCH_TRY_MS = 2_000;
    private static final int CLOSE_TRIES = 5_000;

    private static final Map<String, ExecutorService> actors = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessMutex> mutexes = new ConcurrentHashMap<>();
    private static final Map<String, InterProcessReadWriteLock> rwLocks =
        new ConcurrentHashMap<>();
    /** What an actor holds, by actor and name. */
    private static final Map<String, Lease> leases = new ConcurrentHashMap<>();
    private static final Map<String, LeaderLatch> latches = new ConcurrentHashMap<>();
    private static CuratorFramework client;
    private static String root;

    private Peer() {
    }

    public static void main(String[] args) throws IOException {
        BufferedReader in =
            new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            if (words[1].equals("quit")) {
                break;
            }
            actors.computeIfAbsent(words[0], a -> Executors.newSingleThreadExecutor())
                .execute(() -> say(words[0], answer(words)));
        }
        // no close: what is still held shall look as if the process had died
        Runtime.getRuntime().halt(0);
    }

    private static synchronized void say(String actor, String text) {
        System.out.println(actor + " " + text);
        System.out.flush();
    }

    private static String answer(String[] words) {
        try {
            return obey(words);
        } catch (IllegalMonitorStateException notOurs) {
            return "lost";
        } catch (Exception problem) {
            return "error " + problem.toString().replace('\n', ' ');
        }
    }

    private static String obey(String[] words) throws Exception {
        String actor = words[0];
        switch (words[1]) {
        case "open":
            open(words[2]);
            return "ok";
        case "lock":
            return take(actor, words[2], words[3], Long.parseLong(words[5])) ? "ok 0" : "busy";
        case "unlock":
            give(actor, words[2], words[3]);
            return "ok";
        case "held":
            return holds(actor, words[2], words[3]) ? "yes" : "no";
        case "downgrade":
            // the way its documentation shows: read inside write, then let go of write
            rwLock(words[2]).readLock().acquire();
            rwLock(words[2]).writeLock().release();
            return "ok";
        case "leader":
            return leader(words[2]);
        case "count":
            return count(actor, words[2], words[3], Integer.parseInt(words[4]),
                         Path.of(words[5]));
        default:
            return "error unknown verb";
        }
    }

    /** zk://HOST:PORT[,HOST:PORT...]/ROOT */
    private static void open(String url) throws Exception {
        String rest = url.substring(url.indexOf("://") + 3);
        String hosts = rest.substring(0, rest.indexOf('/'));
        root = rest.substring(rest.indexOf('/'));
        client = CuratorFrameworkFactory.newClient(hosts, KEPT_MS, CONNECT_MS,
                                                   new RetryNTimes(10, 100));
        client.start();
        if (!client.blockUntilConnected(CONNECT_MS, TimeUnit.MILLISECONDS)) {
            throw new IOException("no connection to " + hosts);
        }
    }

    private static InterProcessReadWriteLock rwLock(String name) {
        return rwLocks.computeIfAbsent(
            name, n -> new InterProcessReadWriteLock(client, root + "/" + n));
    }

    private static InterProcessMutex mutex(String kind, String name) {
        switch (kind) {
        case "mutex":
            return mutexes.computeIfAbsent(
                name, n -> new InterProcessMutex(client, root + "/" + n));
        case "read":
            return rwLock(name).readLock();
        case "write":
            return rwLock(name).writeLock();
        default:
            throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    /** Kinds sem1, sem2, ...: a semaphore with that many permits, of which one is taken. */
    private static boolean isSemaphore(String kind) {
        return kind.startsWith("sem");
    }

    private static boolean take(String actor, String kind, String name, long waitMs)
        throws Exception {
        if (isSemaphore(kind)) {
            return takePermit(actor, Integer.parseInt(kind.substring(3)), name, waitMs);
        }
        if (kind.equals("latch")) {
            return takeLatch(actor, name, waitMs);
        }
        if (waitMs < 0) {
            mutex(kind, name).acquire();
            return true;
        }
        return mutex(kind, name).acquire(waitMs, TimeUnit.MILLISECONDS);
    }

    private static boolean takePermit(String actor, int limit, String name, long waitMs)
        throws Exception {
        InterProcessSemaphoreV2 semaphore =
            new InterProcessSemaphoreV2(client, root + "/" + name, limit);
        Lease lease = waitMs < 0 ? semaphore.acquire()
                                 : semaphore.acquire(waitMs, TimeUnit.MILLISECONDS);
        if (lease != null) {
            leases.put(actor + " " + name, lease);
        }
        return lease != null;
    }

    private static boolean takeLatch(String actor, String name, long waitMs)
        throws Exception {
        LeaderLatch latch = new LeaderLatch(client, root + "/" + name, "actor" + actor);
        latch.start();
        long wait = waitMs < 0 ? Long.MAX_VALUE / 1_000_000 : Math.max(waitMs, LATCH_TRY_MS);
        if (latch.await(wait, TimeUnit.MILLISECONDS)) {
            latches.put(actor + " " + name, latch);
            return true;
        }
        close(latch);
        return false;
    }

    /** A latch ends its node in the background: "unlocked" is when that has been done. */
    private static void close(LeaderLatch latch) throws Exception {
        String path = latch.getOurPath();
        latch.close();
        for (int i = 0; path != null && i < CLOSE_TRIES; i++) {
            if (client.checkExists().forPath(path) == null) {
                return;
            }
            Thread.sleep(1);
        }
    }

    private static void give(String actor, String kind, String name) throws Exception {
        if (isSemaphore(kind)) {
            leases.remove(actor + " " + name).close();
        } else if (kind.equals("latch")) {
            close(latches.remove(actor + " " + name));
        } else {
            mutex(kind, name).release();
        }
    }

    private static boolean holds(String actor, String kind, String name) throws Exception {
        if (isSemaphore(kind)) {
            String node = leases.get(actor + " " + name).getNodeName();
            return client.checkExists().forPath(root + "/" + name + "/leases/" + node) != null;
        }
        if (kind.equals("latch")) {
            return latches.get(actor + " " + name).hasLeadership();
        }
        return mutex(kind, name).isOwnedByCurrentThread();
    }

    /** Who leads, as Curator reads it out of the nodes: the first line of the id. */
    private static String leader(String name) throws Exception {
        LeaderLatch looker = new LeaderLatch(client, root + "/" + name, "looker");
        String id = looker.getLeader().getId();
        return "leader " + (id.isEmpty() ? "(nobody)" : id.split("\n")[0]);
    }

    private static String count(String actor, String kind, String name, int rounds, Path file)
        throws Exception {
        for (int i = 0; i < rounds; i++) {
            if (!take(actor, kind, name, COUNT_WAIT_MS)) {
                return "error round " + i + ": busy";
            }
            long number = Long.parseLong(Files.readString(file).trim());
            Thread.sleep(1);
            Files.writeString(file, (number + 1) + "\n");
            give(actor, kind, name);
        }
        return "done " + rounds;
    }
}
