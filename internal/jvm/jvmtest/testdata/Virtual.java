// Virtual computes on a virtual thread, which gives its carrier up now and then, until its
// standard input ends. It needs JDK 21.
public class Virtual {
    static volatile long sink;

    static long step(int n) {
        if (n > 0) return step(n - 1) + 1;
        long sum = 0;
        for (int i = 0; i < 2000; i++) sum += Integer.toString(i).hashCode();
        return sum;
    }

    static void below(int n, boolean yield) {
        if (n > 0) below(n - 1, yield);
        else if (yield) Thread.yield();
        sink += step(n);
    }

    static void work() {
        for (int i = 0; ; i++) below(20, i % 100 == 0);
    }

    public static void main(String[] args) throws Exception {
        Runnable work = Virtual::work;
        Thread.class.getMethod("startVirtualThread", Runnable.class).invoke(null, work);
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
