import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicLong;

// Events allocates at two sites, three times as many bytes at one as at the other, and two of its
// threads wait for each other's monitor. For each line of input it writes "counts", how many bytes
// it has allocated at each site, and how often and for how many ns it has waited 10 ms or longer.
public class Events {
    static volatile byte[] last;
    static volatile long bigs, smalls; // written by one thread
    static final long header = 16;

    static void big() { last = new byte[3000]; }
    static void small() { last = new byte[1000]; }

    // The order is random, so that the JVM's buffers are not full at the same site again and again.
    static void allocate() {
        for (long random = 1;;) {
            for (int i = 0; i < 50; i++) {
                random ^= random << 13;
                random ^= random >>> 7;
                random ^= random << 17;
                if ((random & 64) == 0) {
                    big();
                    bigs = bigs + 1;
                } else {
                    small();
                    smalls = smalls + 1;
                }
            }
            pause(1);
        }
    }

    static final Object door = new Object();
    static final AtomicLong waits = new AtomicLong(), waited = new AtomicLong();

    static void enter() {
        long begin = System.nanoTime();
        synchronized (door) {
            long ns = System.nanoTime() - begin;
            if (ns >= 10_000_000) {
                waits.incrementAndGet();
                waited.addAndGet(ns);
            }
            pause(20);
        }
    }

    static void contend() {
        while (true) {
            enter();
            pause(5);
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void start(Runnable work) {
        Thread t = new Thread(work);
        t.setDaemon(true);
        t.start();
    }

    public static void main(String[] args) throws Exception {
        start(Events::allocate);
        start(Events::contend);
        start(Events::contend);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.out.println("counts " + bigs * (3000 + header) + " " + smalls * (1000 + header) + " " + waits + " " + waited);
        }
    }
}
