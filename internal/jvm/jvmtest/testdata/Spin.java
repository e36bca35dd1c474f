import java.util.concurrent.locks.LockSupport;

/** Works until its input ends. With "rests" it rests for most of the time. */
public class Spin {
    static volatile long sink;

    static int leaf(int k) {
        int sum = 0;
        for (int i = 0; i < 1000; i++) sum += i * k ^ sum;
        return sum;
    }

    static void work() {
        for (int i = 0; i < 1000; i++) sink += leaf(i);
    }

    static void exitAtEnd() {
        try {
            while (System.in.read() >= 0) { }
        } catch (java.io.IOException broken) { }
        System.exit(0);
    }

    public static void main(String[] arguments) {
        new Thread(Spin::exitAtEnd).start();
        System.out.println("ready");
        boolean rests = arguments.length > 0 && arguments[0].equals("rests");
        while (true) {
            work();
            if (rests) LockSupport.parkNanos(5_000_000);
        }
    }
}
