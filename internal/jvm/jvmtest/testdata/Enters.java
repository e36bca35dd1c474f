import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Has virtual threads that wait for ever for monitors: of a thread of the system, and of virtual threads that have locked
 * them with and without a monitor; and threads that wait for each other's. It needs JDK 25, and four carriers. With "gc",
 * a thread has all objects moved again and again.
 */
public class Enters {
    static class Held { }
    static class Slept { }
    static class Inflated { }
    static class Left { }
    static class Right { }
    static class Mixed { }
    static class Plain { }
    static class Guard { }

    static final Held held = new Held();
    static final Slept slept = new Slept();
    static final Inflated inflated = new Inflated();
    static final int[] array = new int[1];

    interface Body {
        void run() throws Exception;
    }

    static Runnable named(String name, Body body) {
        return () -> {
            Thread.currentThread().setName(name);
            try {
                body.run();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        };
    }

    static Thread virtual(String name, Body body) throws Exception {
        return (Thread) Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, named(name, body));
    }

    static Thread platform(String name, Body body) {
        Thread t = new Thread(named(name, body), name);
        t.setDaemon(true);
        t.start();
        return t;
    }

    static void keeps(Object monitor, CountDownLatch kept, boolean inflates) throws Exception {
        synchronized (monitor) {
            if (inflates) {
                monitor.wait(1);
            }
            kept.countDown();
            Thread.sleep(3_600_000);
        }
    }

    static void wants(Object monitor) {
        synchronized (monitor) { }
    }

    static void entersBoth(Object outer, Object inner, CountDownLatch met) throws Exception {
        synchronized (outer) {
            met.countDown();
            met.await();
            wants(inner);
        }
    }

    static void entersThenLocks(Object monitor, ReentrantLock lock, CountDownLatch met) throws Exception {
        synchronized (monitor) {
            met.countDown();
            met.await();
            lock.lock();
        }
    }

    static void locksThenEnters(ReentrantLock lock, Object monitor, CountDownLatch met) throws Exception {
        lock.lock();
        met.countDown();
        met.await();
        wants(monitor);
    }

    /** Its initialization keeps a virtual thread on its carrier. */
    static class Pins {
        static {
            wants(held);
        }
        static void begin() { }
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

    static void isBlocked(Thread t) throws Exception {
        while (t.getState() != Thread.State.BLOCKED && t.getState() != Thread.State.WAITING) {
            Thread.sleep(1);
        }
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch kept = new CountDownLatch(4);
        platform("holder", () -> keeps(held, kept, false));
        virtual("sleeper", () -> keeps(slept, kept, false));
        virtual("inflater", () -> keeps(inflated, kept, true));
        virtual("arrayer", () -> keeps(array, kept, false));
        kept.await();
        Thread.sleep(20); // they have given their carriers up
        List<Thread> wait = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            wait.add(virtual("wants-held-" + i, () -> wants(held)));
            wait.add(virtual("wants-slept-" + i, () -> wants(slept)));
            wait.add(virtual("wants-inflated-" + i, () -> wants(inflated)));
            wait.add(virtual("wants-array-" + i, () -> wants(array)));
        }
        wait.add(platform("plain-slept", () -> wants(slept)));
        wait.add(platform("plain-inflated", () -> wants(inflated)));
        wait.add(virtual("pinned", () -> Pins.begin()));
        Left left = new Left();
        Right right = new Right();
        CountDownLatch two = new CountDownLatch(2);
        wait.add(virtual("left", () -> entersBoth(left, right, two)));
        wait.add(virtual("right", () -> entersBoth(right, left, two)));
        Mixed mixed = new Mixed();
        Plain plain = new Plain();
        CountDownLatch both = new CountDownLatch(2);
        wait.add(virtual("mixed", () -> entersBoth(mixed, plain, both)));
        wait.add(platform("plain", () -> entersBoth(plain, mixed, both)));
        Guard guard = new Guard();
        ReentrantLock lock = new ReentrantLock();
        CountDownLatch pair = new CountDownLatch(2);
        wait.add(virtual("guard", () -> entersThenLocks(guard, lock, pair)));
        wait.add(virtual("locker", () -> locksThenEnters(lock, guard, pair)));
        two.await();
        both.await();
        pair.await();
        for (Thread t : wait) {
            isBlocked(t);
        }
        if (arguments.length > 0) {
            platform("collector", Enters::collects);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
