import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;

/** The threads of a program that wait for each other, once all have met. */
class Waiters {
    private static final List<Thread> all = new ArrayList<>();

    static void start(String name, Runnable run) {
        Thread t = new Thread(run, name);
        t.setDaemon(true);
        t.start();
        all.add(t);
    }

    static void await(CountDownLatch met) {
        met.countDown();
        try {
            met.await();
        } catch (InterruptedException e) {
            throw new RuntimeException(e);
        }
    }

    /** Waits until each thread waits for what it was started for, and none for the others' start. */
    static void awaitWaits() throws InterruptedException {
        for (Thread t : all) {
            while (!waits(t)) Thread.sleep(1);
        }
    }

    private static boolean waits(Thread t) {
        switch (t.getState()) {
            case BLOCKED: case WAITING: case TIMED_WAITING:
                for (StackTraceElement call : t.getStackTrace()) {
                    if (call.getClassName().equals("java.util.concurrent.CountDownLatch")) return false;
                }
                return true;
            default:
                return false;
        }
    }
}
