// Nulls makes checks of references, some of them null, from several callers, and counts its calls and nulls by caller.
// Any input ends it: then it writes its counts.
public class Nulls {
    static class Box { int n = 1; }

    static int test(Object o) { return o instanceof Box ? 1 : 2; }
    static Object cast(Object o) { return (Box) o; }
    static Object never(Object o) { return (Box) o; }

    static final long[] calls = new long[3], nulls = new long[3]; // of always, seldom and cast's only caller
    static volatile boolean stop;
    static long sum;

    static void always(Object o, int n) {
        for (int i = 0; i < n; i++) {
            calls[0]++;
            nulls[0]++;
            sum += test(i < 0 ? o : null);
        }
    }

    static void seldom(Object o, int n) {
        for (int i = 0; i < n; i++) {
            boolean isNull = (i & 7) == 0;
            calls[1]++;
            if (isNull) nulls[1]++;
            sum += test(isNull ? null : o);
        }
    }

    static void only(Object o, int n) {
        for (int i = 0; i < n; i++) {
            boolean isNull = (i & 3) == 0;
            calls[2]++;
            if (isNull) nulls[2]++;
            if (cast(isNull ? null : o) == o) sum++;
            if (never(o) == o) sum++;
        }
    }

    static void work() {
        Object box = new Box();
        while (!stop) {
            always(box, 100);
            seldom(box, 1000);
            only(box, 1000);
        }
    }

    public static void main(String[] args) throws Exception {
        Thread t = new Thread(Nulls::work, "worker");
        t.setDaemon(true);
        t.start();
        System.out.println("ready");
        System.in.read();
        stop = true;
        t.join();
        for (int i = 0; i < calls.length; i++) System.out.print(calls[i] + " " + nulls[i] + " ");
        System.out.println();
    }
}
