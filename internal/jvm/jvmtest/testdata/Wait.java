/** Waits until its input ends. */
public class Wait {
    public static void main(String[] arguments) throws java.io.IOException {
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
