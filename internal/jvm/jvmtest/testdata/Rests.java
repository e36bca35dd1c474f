import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.locks.LockSupport;
import java.util.concurrent.locks.ReentrantLock;

/**
 * Has as many virtual threads as its first argument says, which wait for ever, in turn: asleep, parked, for a queue, for a
 * lock, for a socket, for a monitor, on an object, and in deep recursion. It needs JDK 25. With "gc", a thread has all
 * objects moved again and again; with "goes", virtual threads go on and on; with "parked", all others are parked. Those of
 * even numbers belong to an executor. Four more have names.
 */
public class Rests {
    static final ReentrantLock lock = new ReentrantLock(), kept = new ReentrantLock();
    static final BlockingQueue<Object> queue = new ArrayBlockingQueue<>(1);
    static final Object monitor = new Object(), condition = new Object();
    static volatile ServerSocket server;
    static CountDownLatch begun;

    static void sleeps() throws Exception {
        Thread.sleep(3_600_000);
    }

    static void parks() {
        while (true) {
            LockSupport.park();
        }
    }

    static void takes() throws Exception {
        queue.take();
    }

    static void locks() {
        lock.lock();
    }

    static void reads() throws Exception {
        try (Socket s = new Socket(InetAddress.getLoopbackAddress(), server.getLocalPort())) {
            begun.countDown();
            InputStream in = s.getInputStream();
            in.read();
        }
    }

    static void enters() {
        synchronized (monitor) { }
    }

    static void waits() throws Exception {
        synchronized (condition) {
            while (true) {
                condition.wait();
            }
        }
    }

    static int recurses(int n) {
        if (n == 0) {
            LockSupport.parkNanos(3_600_000_000_000L);
            return 0;
        }
        return recurses(n - 1) + 1;
    }

    static void goesOn(int ms) throws Exception {
        for (;;) {
            Thread.sleep(ms);
        }
    }

    static void keeps() throws Exception {
        kept.lock();
        Thread.sleep(3_600_000);
    }

    static void wants() {
        kept.lock();
    }

    static void lockBoth(ReentrantLock outer, ReentrantLock inner, CountDownLatch met) throws Exception {
        outer.lock();
        met.countDown();
        met.await();
        inner.lock();
    }

    /** Four threads with names: one waits for a lock that another has, and two wait for each other's. */
    static void locksOfEachOther() throws Exception {
        CountDownLatch met = new CountDownLatch(2);
        ReentrantLock left = new ReentrantLock(), right = new ReentrantLock();
        named("keeper", () -> keeps());
        while (!kept.isLocked()) {
            Thread.sleep(1);
        }
        named("wanter", () -> wants());
        named("links-\u00e4\u2713", () -> lockBoth(left, right, met));
        named("rechts", () -> lockBoth(right, left, met));
        met.await();
    }

    interface Body {
        void run() throws Exception;
    }

    static void named(String name, Body body) throws Exception {
        start(() -> {
            Thread.currentThread().setName(name);
            try {
                body.run();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        });
    }

    static void rest(int n) {
        try {
            if (n % 8 != 4) {
                begun.countDown();
            }
            switch (n % 8) {
            case 0: sleeps(); break;
            case 1: parks(); break;
            case 2: takes(); break;
            case 3: locks(); break;
            case 4: reads(); break;
            case 5: enters(); break;
            case 6: waits(); break;
            default: recurses(60);
            }
        } catch (Exception e) {
            throw new RuntimeException(e);
        }
    }

    static byte[][] garbage = new byte[256][];

    // A millisecond has at most 1 MB of garbage: one collection after the other would take all CPUs.
    static void collects() {
        for (int i = 0;; i++) {
            for (int j = 0; j < garbage.length; j++) {
                garbage[j] = new byte[2048];
            }
            if (i % 256 == 0) {
                System.gc();
            }
            if (i % 2 == 0) {
                LockSupport.parkNanos(1_000_000);
            }
        }
    }

    static void holds(CountDownLatch held) {
        lock.lock();
        synchronized (monitor) {
            held.countDown();
            try {
                Thread.sleep(3_600_000);
            } catch (InterruptedException e) { }
        }
    }

    static void start(Runnable run) throws Exception {
        Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, run);
    }

    public static void main(String[] arguments) throws Exception {
        int n = Integer.parseInt(arguments[0]);
        begun = new CountDownLatch(n);
        server = new ServerSocket(0, 4096, InetAddress.getLoopbackAddress());
        CountDownLatch held = new CountDownLatch(1);
        Thread holder = new Thread(() -> holds(held), "holder");
        holder.setDaemon(true);
        holder.start();
        held.await();
        locksOfEachOther();
        ExecutorService of = (ExecutorService) Executors.class.getMethod("newVirtualThreadPerTaskExecutor").invoke(null);
        for (int i = 0; i < n; i++) {
            int at = arguments.length > 1 && arguments[1].equals("parked") ? 1 : i;
            if (at % 2 == 0) {
                of.execute(() -> rest(at));
            } else {
                start(() -> rest(at));
            }
        }
        for (String argument : arguments) {
            if (argument.equals("gc")) {
                Thread t = new Thread(Rests::collects, "collector");
                t.setDaemon(true);
                t.start();
            }
            for (int i = 1; argument.equals("goes") && i <= 100; i++) {
                int ms = 4 * (i % 20 + 1);
                start(() -> {
                    try {
                        goesOn(ms);
                    } catch (Exception e) { }
                });
            }
        }
        begun.await();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
