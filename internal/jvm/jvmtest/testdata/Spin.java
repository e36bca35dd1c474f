/** Works until its input ends. */
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
        while (true) work();
    }
}
