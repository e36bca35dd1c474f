// Loop computes on a thread until its standard input ends.
public class Loop {
    static volatile long sink;

    interface Shape { int area(int i); }
    static class Square implements Shape { public int area(int i) { return i * i; } }
    static class Circle implements Shape { public int area(int i) { return i * 3; } }

    static int call(Shape s, int i) { return s.area(i); }

    static int deep(Shape s, int n) {
        if (n == 0) {
            int sum = 0;
            for (int i = 0; i < 1000; i++) sum += call(s, i);
            return sum;
        }
        return deep(s, n - 1) + 1;
    }

    static void work() {
        Shape[] shapes = {new Square(), new Circle()};
        for (int i = 0; ; i++) sink += deep(shapes[i & 1], 10 + i % 20);
    }

    public static void main(String[] args) throws Exception {
        Thread t = new Thread(Loop::work, "worker");
        t.setDaemon(true);
        t.start();
        System.out.println("ready");
        while (System.in.read() >= 0) { }
    }
}
