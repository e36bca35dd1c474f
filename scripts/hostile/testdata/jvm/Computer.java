import java.io.BufferedReader;
import java.io.File;
import java.io.InputStreamReader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.LongSupplier;

// Computer computes answers again and again, and checks them against the first one of each task. Two
// threads wait for each other's monitor. For each line of input it writes its report.
public class Computer {
    interface Shape { long area(long i); }
    record Square(long side) implements Shape { public long area(long i) { return side * side + i; } }
    record Circle(long radius) implements Shape { public long area(long i) { return 3 * radius * radius - i; } }
    record Bow(long width) implements Shape { public long area(long i) { return width ^ i; } }

    static final Shape[] shapes = {new Square(3), new Circle(5), new Bow(7)};

    static long calls() {
        long sum = 0;
        for (int i = 0; i < 20_000; i++) sum = 31 * sum + shapes[(i ^ i >> 3) % 3].area(i);
        return sum;
    }

    static long recursion(int n) { return n < 2 ? n : recursion(n - 1) + recursion(n - 2); }

    static long sorting() {
        int[] all = new int[2000];
        long x = 12345;
        for (int i = 0; i < all.length; i++) {
            x = x * 6364136223846793005L + 1442695040888963407L;
            all[i] = (int) (x >> 33);
        }
        Arrays.sort(all);
        return all[7] * 31L + Arrays.hashCode(all);
    }

    static long words() {
        Map<String, Integer> counts = new HashMap<>();
        for (int i = 0; i < 2000; i++) counts.merge("word" + i % 97, i, Integer::sum);
        return counts.hashCode();
    }

    static long failures() {
        long caught = 0;
        for (int i = 0; i < 300; i++) {
            try {
                caught += shapes[i % 5].area(i); // two of five are missing
            } catch (ArrayIndexOutOfBoundsException e) {
                caught = 7 * caught + 1;
            }
        }
        return caught;
    }

    static final AtomicLong answers = new AtomicLong(), wrong = new AtomicLong();

    static void compute(String name, LongSupplier task) {
        long first = task.getAsLong();
        start(name, () -> {
            if (task.getAsLong() != first) wrong.incrementAndGet();
            answers.incrementAndGet();
            pause(5);
        });
    }

    static final Object door = new Object();

    static void enter() {
        synchronized (door) {
            pause(3);
        }
    }

    static void pause(long ms) {
        try {
            Thread.sleep(ms);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static void start(String name, Runnable round) {
        Thread t = new Thread(() -> { while (true) round.run(); }, name);
        t.setDaemon(true);
        t.start();
    }

    public static void main(String[] args) throws Exception {
        compute("calls", Computer::calls);
        compute("recursion", () -> recursion(18));
        compute("sorting", Computer::sorting);
        compute("words", Computer::words);
        compute("failures", Computer::failures);
        start("contender 1", () -> { enter(); pause(1); });
        start("contender 2", () -> { enter(); pause(1); });
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            String[] files = new File("/proc/self/fd").list();
            System.out.println("{\"answers\":" + answers + ",\"wrong\":" + wrong + ",\"descriptors\":" + files.length + "}");
        }
    }
}
