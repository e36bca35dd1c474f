import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.locks.LockSupport;

/**
 * Waits in a known way in each thread, and tells after each line of its input how long each method has waited since the
 * line before, by its own clock, in ns, and the time itself, CLOCK_MONOTONIC.
 */
public class Waits {
    interface Step { void run() throws Exception; }

    static final Object monitor = new Object(), bell = new Object();
    static final String[] names = {"sleeps", "parks", "enters", "waits", "reads"};
    static final AtomicLong[] totals = new AtomicLong[names.length];
    static final long[] begun = new long[names.length];

    static void sleeps() throws Exception { Thread.sleep(15); }
    static void parks() { LockSupport.parkNanos(15_000_000); }
    static void enters() { synchronized (monitor) { } }
    static final Step enters = Waits::enters;
    static void waits() throws Exception { synchronized (bell) { bell.wait(15); } }
    static void reads(Socket s) throws Exception { s.getInputStream().read(); }

    /** Calls a method again and again. Its time so far is in totals, and the beginning of the last call in begun. */
    static void repeat(int of, Step step) {
        Thread t = new Thread(() -> {
            try {
                for (;;) {
                    long from = System.nanoTime();
                    synchronized (totals[of]) { begun[of] = from; }
                    step.run();
                    synchronized (totals[of]) {
                        totals[of].addAndGet(System.nanoTime() - begun[of]);
                        begun[of] = 0;
                    }
                    if (step == enters) Thread.sleep(1); // so that the lock is another's
                }
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }, names[of] + "-" + (of + 7));
        t.setDaemon(true);
        t.start();
    }

    static void daemon(Step step) {
        Thread t = new Thread(() -> {
            try {
                for (;;) step.run();
            } catch (Exception e) {
                throw new RuntimeException(e);
            }
        }, "helper");
        t.setDaemon(true);
        t.start();
    }

    /** Holds the monitor for most of the time. */
    static void holds() throws Exception {
        synchronized (monitor) { Thread.sleep(20); }
        Thread.sleep(1);
    }

    public static void main(String[] arguments) throws Exception {
        for (int i = 0; i < totals.length; i++) totals[i] = new AtomicLong();
        ServerSocket server = new ServerSocket(0, 1, InetAddress.getLoopbackAddress());
        Socket client = new Socket(InetAddress.getLoopbackAddress(), server.getLocalPort());
        Socket peer = server.accept();
        daemon(Waits::holds);
        daemon(() -> { Thread.sleep(15); peer.getOutputStream().write(1); });
        repeat(0, Waits::sleeps);
        repeat(1, Waits::parks);
        repeat(2, enters);
        repeat(3, Waits::waits);
        repeat(4, () -> reads(client));
        System.out.println("ready");
        long[] last = new long[names.length];
        while (System.in.read() >= 0) {
            StringBuilder line = new StringBuilder("at " + System.nanoTime() + ' ');
            for (int i = 0; i < names.length; i++) {
                synchronized (totals[i]) {
                    long total = totals[i].get() + (begun[i] == 0 ? 0 : System.nanoTime() - begun[i]);
                    line.append(names[i]).append(' ').append(total - last[i]).append(' ');
                    last[i] = total;
                }
            }
            System.out.println(line);
        }
    }
}
