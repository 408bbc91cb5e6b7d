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
import org.redisson.Redisson;
import org.redisson.api.RFencedLock;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/**
 * Redisson as a peer of the interop tests; ../interop.h has the protocol. An actor is a
 * thread, because to Redisson the owner of a lock is a thread.
 */
public final class Peer {
    /** What a lease of 0 in "lock" means: so long, and renewed. */
    private static final long KEPT_MS = 1500;
    private static final long COUNT_WAIT_MS = 60_000;

    private static final Map<String, ExecutorService> actors = new ConcurrentHashMap<>();
    private static RedissonClient client;

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
        // no shutdown: what is still held shall look as if the process had died
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
        switch (words[1]) {
        case "open":
            open(words[2]);
            return "ok";
        case "lock":
            return take(words[2], words[3], Long.parseLong(words[4]), Long.parseLong(words[5]));
        case "unlock":
            lock(words[2], words[3]).unlock();
            return "ok";
        case "held":
            return lock(words[2], words[3]).isHeldByCurrentThread() ? "yes" : "no";
        case "downgrade":
            // the way its documentation shows: read inside write, then let go of write
            lock("read", words[2]).lock(Long.parseLong(words[3]), TimeUnit.MILLISECONDS);
            lock("write", words[2]).unlock();
            return "ok";
        case "count":
            return count(words[2], words[3], Integer.parseInt(words[4]), Path.of(words[5]));
        default:
            return "error unknown verb";
        }
    }

    /** redis://HOST:PORT or redis+cluster://HOST:PORT,HOST:PORT... */
    private static void open(String url) {
        Config config = new Config();
        config.setLockWatchdogTimeout(KEPT_MS);
        config.setNettyThreads(4);
        config.setThreads(4);
        String hosts = url.substring(url.indexOf("://") + 3);
        if (url.startsWith("redis+cluster:")) {
            for (String host : hosts.split(",")) {
                config.useClusterServers().addNodeAddress("redis://" + host);
            }
            config.useClusterServers().setMasterConnectionMinimumIdleSize(2)
                .setSlaveConnectionMinimumIdleSize(2);
        } else {
            config.useSingleServer().setAddress("redis://" + hosts)
                .setConnectionMinimumIdleSize(2);
        }
        client = Redisson.create(config);
    }

    private static RLock lock(String kind, String name) {
        switch (kind) {
        case "lock":
            return client.getLock(name);
        case "fair":
            return client.getFairLock(name);
        case "fenced":
            return client.getFencedLock(name);
        case "read":
            return client.getReadWriteLock(name).readLock();
        case "write":
            return client.getReadWriteLock(name).writeLock();
        default:
            throw new IllegalArgumentException("unknown kind " + kind);
        }
    }

    private static String take(String kind, String name, long leaseMs, long waitMs)
        throws InterruptedException {
        long lease = leaseMs == 0 ? -1 : leaseMs;
        RLock lock = lock(kind, name);
        if (lock instanceof RFencedLock) {
            Long token = ((RFencedLock) lock).tryLockAndGetToken(waitMs, lease,
                                                                 TimeUnit.MILLISECONDS);
            return token == null ? "busy" : "ok " + token;
        }
        if (waitMs < 0) {
            lock.lock(lease, TimeUnit.MILLISECONDS);
            return "ok 0";
        }
        boolean taken = waitMs == 0 && leaseMs == 0
            ? lock.tryLock()
            : lock.tryLock(waitMs, lease, TimeUnit.MILLISECONDS);
        return taken ? "ok 0" : "busy";
    }

    private static String count(String kind, String name, int rounds, Path file)
        throws Exception {
        for (int i = 0; i < rounds; i++) {
            String taken = take(kind, name, 0, COUNT_WAIT_MS);
            if (!taken.startsWith("ok")) {
                return "error round " + i + ": " + taken;
            }
            long number = Long.parseLong(Files.readString(file).trim());
            Thread.sleep(1);
            Files.writeString(file, (number + 1) + "\n");
            lock(kind, name).unlock();
        }
        return "done " + rounds;
    }
}
