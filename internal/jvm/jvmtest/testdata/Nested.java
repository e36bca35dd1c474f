// Nested computes in a class initializer, which the JVM calls on behalf of Java code, until
// its standard input ends.
public class Nested {
    static class Initialized {
        static long sum;
        static { compute(); }

        static void compute() {
            for (int i = 0; ; i++) sum += step(i);
        }

        static int step(int i) { return Integer.toString(i).hashCode(); }
    }

    static void outer(int n) {
        if (n > 0) outer(n - 1);
        else Initialized.sum++;
    }

    public static void main(String[] args) throws Exception {
        Thread t = new Thread(() -> outer(5), "worker");
        t.setDaemon(true);
        t.start();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
