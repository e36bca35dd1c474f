import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.concurrent.locks.ReentrantReadWriteLock;

/**
 * Has threads that wait for ever for locks: of a thread that sleeps, of a writer, of readers, for each other's, and for a
 * monitor and a lock of each other. With the argument "gc", a thread has all objects moved again and again.
 */
public class Locks {
    static final ReentrantLock held = new ReentrantLock(true), mixed = new ReentrantLock();
    static final ReentrantReadWriteLock written = new ReentrantReadWriteLock(), read = new ReentrantReadWriteLock();
    static final Object monitor = new Object();

    static void keepsTheLock(Lock lock, CountDownLatch met) {
        lock.lock();
        Waiters.await(met);
        try {
            Thread.sleep(3_600_000);
        } catch (InterruptedException e) { }
    }

    static void wantsTheLock(Lock lock, CountDownLatch met) {
        Waiters.await(met);
        lock.lock();
    }

    static void readsToo(CountDownLatch met) {
        Waiters.await(met);
        written.readLock().lock();
    }

    static void writesToo(CountDownLatch met) {
        Waiters.await(met);
        read.writeLock().lock();
    }

    static void lockBoth(ReentrantLock outer, ReentrantLock inner, CountDownLatch met) {
        outer.lock();
        Waiters.await(met);
        inner.lock();
    }

    static void locksThenEnters(CountDownLatch met) {
        mixed.lock();
        Waiters.await(met);
        synchronized (monitor) { }
    }

    static void entersThenLocks(CountDownLatch met) {
        synchronized (monitor) {
            Waiters.await(met);
            mixed.lock();
        }
    }

    static byte[][] garbage = new byte[256][];

    static void collects() {
        for (int i = 0;; i++) {
            for (int j = 0; j < garbage.length; j++) {
                garbage[j] = new byte[2048];
            }
            if (i % 64 == 0) {
                System.gc();
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch all = new CountDownLatch(7), pair = new CountDownLatch(2), two = new CountDownLatch(2);
        Waiters.start("keeper", () -> keepsTheLock(held, all));
        Waiters.start("writer", () -> keepsTheLock(written.writeLock(), all));
        Waiters.start("reader", () -> keepsTheLock(read.readLock(), all));
        for (int i = 0; i < 2; i++) {
            Waiters.start("wanter-" + i, () -> wantsTheLock(held, all));
        }
        Waiters.start("reads-too", () -> readsToo(all));
        Waiters.start("writes-too", () -> writesToo(all));
        ReentrantLock left = new ReentrantLock(), right = new ReentrantLock();
        Waiters.start("left", () -> lockBoth(left, right, pair));
        Waiters.start("right", () -> lockBoth(right, left, pair));
        Waiters.start("locker", () -> locksThenEnters(two));
        Waiters.start("enterer", () -> entersThenLocks(two));
        Waiters.awaitWaits();
        if (arguments.length > 0) {
            Waiters.start("collector", Locks::collects);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
