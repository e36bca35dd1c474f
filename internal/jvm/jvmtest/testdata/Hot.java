import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.locks.LockSupport;

// Hot is Work, but for methods that take the time themselves: what a hint about their call can save is most of it.
// With "rests" it rests for most of the time.
public class Hot {
    interface Shape { int area(); }

    static final class Ci implements Shape {
        final int r;
        Ci(int r) { this.r = r; }
        public int area() {
            int steps = 0;
            for (long n = r; n > 1; steps++) n = (n & 1) == 0 ? n / 2 : 3 * n + 1;
            return steps;
        }
    }

    static final class Sq implements Shape {
        final int s;
        Sq(int s) { this.s = s; }
        public int area() {
            int steps = 0;
            for (long n = s; n > 1; steps += 4) n = (n & 1) == 0 ? n / 2 : 3 * n + 1;
            return steps;
        }
    }

    static int call(Shape s) { return 1 + s.area(); }

    static int circles(Shape[] shapes, int told) {
        int sum = 0;
        for (int i = 0; i < shapes.length; i++) sum += call(shapes[i]);
        if (told > 0) {
            sum++;
            if (told > 1) sum += 2;
        }
        return sum;
    }

    static int squares(Shape[] shapes) {
        int sum = 0;
        for (int i = 0; i < shapes.length; i++) sum += call(shapes[i]);
        return sum;
    }

    static volatile int told;

    public static void main(String[] args) throws Exception {
        Thread reader = new Thread(() -> {
            try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
                while (in.readLine() != null) told++;
                System.exit(0);
            } catch (java.io.IOException e) {
                System.exit(1);
            }
        });
        reader.setDaemon(true);
        reader.start();
        Shape[] circles = new Shape[1000], mixed = new Shape[1000];
        for (int i = 0; i < 1000; i++) {
            circles[i] = new Ci(i);
            mixed[i] = i % 3 == 0 ? new Ci(i) : new Sq(i);
        }
        boolean rests = args.length > 0 && args[0].equals("rests");
        int sum = 0;
        for (int n = 0; ; n++) {
            sum += squares(mixed) + circles(circles, told);
            if (n == 500) System.out.println("ready");
            if (sum == 42) System.out.println();
            if (rests && n >= 500) LockSupport.parkNanos(1_000_000);
        }
    }
}
