import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

/** Has threads that wait for ever: two for each other's monitor, two for each other's lock, one for a thread's that sleeps. */
public class Stuck {
    static final Object first = new Object(), second = new Object(), held = new Object();

    static void start(String name, Runnable run) {
        Thread t = new Thread(run, name);
        t.setDaemon(true);
        t.start();
    }

    static void await(CountDownLatch met) {
        met.countDown();
        try {
            met.await();
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    static void enterBoth(Object outer, Object inner, CountDownLatch met) {
        synchronized (outer) {
            await(met);
            synchronized (inner) { }
        }
    }

    static void lockBoth(ReentrantLock outer, ReentrantLock inner, CountDownLatch met) {
        outer.lock();
        await(met);
        inner.lock();
    }

    static void keepsTheLock(CountDownLatch met) {
        synchronized (held) {
            await(met);
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException e) { }
        }
    }

    static void wantsTheLock(CountDownLatch met) {
        await(met);
        synchronized (held) { }
    }

    static void goesOn() {
        for (;;) {
            try {
                Thread.sleep(2);
            } catch (InterruptedException e) { }
        }
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch monitors = new CountDownLatch(2), locks = new CountDownLatch(2), keeper = new CountDownLatch(3);
        start("left", () -> enterBoth(first, second, monitors));
        start("right", () -> enterBoth(second, first, monitors));
        ReentrantLock[] pair = {new ReentrantLock(), new ReentrantLock()};
        start("keeper", () -> keepsTheLock(keeper));
        for (int i = 0; i < 2; i++) {
            int n = i;
            start("locker-" + n, () -> lockBoth(pair[n], pair[1 - n], locks));
            start("wanter-" + n, () -> wantsTheLock(keeper));
        }
        start("goer", Stuck::goesOn);
        keeper.await();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
