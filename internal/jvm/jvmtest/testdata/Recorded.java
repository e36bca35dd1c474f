import java.util.*;

/** Computes, allocates and waits for locks on three threads for 600 ms. */
public class Recorded {
    static volatile long sink;
    interface Shape { int area(int k); }
    static final class Sq implements Shape { public int area(int k) { return k * k; } }
    static final class Ci implements Shape { public int area(int k) { return 3 * k; } }
    static long squares(int n, Shape s) { long t = 0; for (int i = 0; i < n; i++) t += call(s, i); return t; }
    static int call(Shape s, int k) { return s.area(k) + Integer.toString(k).hashCode(); }
    static long deep(int n) { return n == 0 ? squares(5000, new Sq()) : deep(n - 1) + 1; }
    static long alloc() { List<byte[]> l = new ArrayList<>(); for (int i = 0; i < 2000; i++) l.add(new byte[1000]); return l.size(); }
    static final Object lock = new Object();
    static final java.util.concurrent.locks.ReentrantLock rl = new java.util.concurrent.locks.ReentrantLock();
    static void locked(boolean mon) {
        if (mon) synchronized (lock) { sink += squares(200000, new Ci()); }
        else { rl.lock(); try { sink += squares(200000, new Sq()); } finally { rl.unlock(); } }
    }
    public static void main(String[] a) throws Exception {
        long end = System.currentTimeMillis() + 600;
        Runnable lambda = () -> { while (System.currentTimeMillis() < end) { sink += squares(100000, new Ci()); sink += deep(30); sink += alloc(); locked(true); locked(false);} };
        List<Thread> ts = new ArrayList<>();
        for (int i = 0; i < 3; i++) { Thread t = new Thread(lambda, "worker;" + i); t.start(); ts.add(t); }
        for (Thread t : ts) t.join();
        System.out.println(sink);
    }
}
