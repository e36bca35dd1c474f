import java.util.concurrent.locks.LockSupport;

// Shapes calls areas of shapes by one method, from a caller that has circles only and from one
// that has squares, too, and counts its calls by caller and type. Any input ends it: then it
// writes its counts. With "rests" it rests for most of the time.
public class Shapes {
    interface Shape { int area(int i); }
    static class Circle implements Shape { public int area(int i) { return steps(i); } }
    static class Square implements Shape { public int area(int i) { return steps(i) + steps(i + 1); } }

    static int call(Shape s, int i) { return s.area(i); }

    // steps takes some time, in a loop of unknown length.
    static int steps(int i) {
        int n = (i & 1023) + 1, count = 0;
        for (; n != 1; count++) n = (n & 1) == 0 ? n / 2 : 3 * n + 1;
        return count;
    }

    static final long[] counts = new long[3]; // circles from circles, circles and squares from squares
    static volatile boolean stop;
    static long sum;

    static void circles(Shape circle, int n) {
        for (int i = 0; i < n; i++) {
            counts[0]++;
            sum += call(circle, i);
        }
    }

    // 3 of 4 are squares.
    static void squares(Shape circle, Shape square, int n) {
        for (int i = 0; i < n; i++) {
            boolean round = (i & 3) == 0;
            counts[round ? 1 : 2]++;
            sum += call(round ? circle : square, i);
        }
    }

    static void work(boolean rests) {
        Shape circle = new Circle(), square = new Square();
        while (!stop) {
            circles(circle, 1000);
            squares(circle, square, 1000);
            if (rests) LockSupport.parkNanos(1_000_000);
        }
    }

    public static void main(String[] args) throws Exception {
        Thread t = new Thread(() -> work(args.length > 0 && args[0].equals("rests")), "worker");
        t.setDaemon(true);
        t.start();
        System.out.println("ready");
        System.in.read();
        stop = true;
        t.join();
        System.out.println(counts[0] + " " + counts[1] + " " + counts[2]);
    }
}
