// SPDX-License-Identifier: MIT
// Pairs of Redisson's RLock: reads how many, prints their median in nanoseconds.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.redisson.Redisson;
import org.redisson.api.RLock;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

public class Pairs {
    public static void main(String[] args) throws Exception {
        Config config = new Config();
        config.useSingleServer().setAddress("redis://127.0.0.1:" + args[0]);
        RedissonClient client = Redisson.create(config);
        RLock lock = client.getLock("bench/pair-java");
        BufferedReader orders = new BufferedReader(new InputStreamReader(System.in));
        for (String line = orders.readLine(); line != null; line = orders.readLine()) {
            long[] took = new long[Integer.parseInt(line.trim())];
            for (int i = 0; i < took.length; i++) {
                long start = System.nanoTime();
                lock.lock();
                lock.unlock();
                took[i] = System.nanoTime() - start;
            }
            Arrays.sort(took);
            System.out.println(took[took.length / 2]);
            System.out.flush();
        }
        client.shutdown();
    }
}
