import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

/** Has threads that wait for ever: two for each other's monitor, two for each other's lock, one for a thread's that sleeps. */
public class Stuck {
    static final Object first = new Object(), second = new Object(), held = new Object();

    static void enterBoth(Object outer, Object inner, CountDownLatch met) {
        synchronized (outer) {
            Waiters.await(met);
            synchronized (inner) { }
        }
    }

    static void lockBoth(ReentrantLock outer, ReentrantLock inner, CountDownLatch met) {
        outer.lock();
        Waiters.await(met);
        inner.lock();
    }

    static void keepsTheLock(CountDownLatch met) {
        synchronized (held) {
            Waiters.await(met);
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException e) { }
        }
    }

    static void wantsTheLock(CountDownLatch met) {
        Waiters.await(met);
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
        Waiters.start("left", () -> enterBoth(first, second, monitors));
        Waiters.start("right", () -> enterBoth(second, first, monitors));
        ReentrantLock[] pair = {new ReentrantLock(), new ReentrantLock()};
        Waiters.start("keeper", () -> keepsTheLock(keeper));
        for (int i = 0; i < 2; i++) {
            int n = i;
            Waiters.start("locker-" + n, () -> lockBoth(pair[n], pair[1 - n], locks));
            Waiters.start("wanter-" + n, () -> wantsTheLock(keeper));
        }
        Waiters.awaitWaits();
        Waiters.start("goer", Stuck::goesOn);
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
