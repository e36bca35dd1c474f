import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.invoke.MethodHandle;
import java.lang.invoke.MethodHandles;
import java.lang.invoke.MethodType;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.IntUnaryOperator;

// Bodies has bytecodes of all kinds that a JVM writes over. A line of input makes it run them until it has.
public class Bodies {
    byte b = 1; char c = 2; short s = 3; int i = 4; long l = 5; float f = 6; double d = 7; boolean z; Object o = "text";
    static int counted;
    int[] ints = new int[4];
    char[] chars = {1, 2, 3, 4};

    // fields reads and writes fields of all kinds.
    double fields() {
        b++; c++; s++; i++; l++; f++; d++; z = !z; o = z ? this : "other";
        return b + c + s + i + l + f + d + (o == this ? 1 : 0);
    }

    // access begins with the pairs that become one bytecode: this and its field, two variables, a variable and an array.
    int access(char[] of, int x, int y) {
        Object mine = this.o;
        float g = this.f;
        int sum = this.i + x + y;
        int at = y & 3;
        sum += of[at] + chars[at] + ints[at];
        return mine == null || g > 1e30f ? 0 : sum;
    }

    final int last() { return i; }

    int calls(Map<String, Integer> map) {
        counted++;
        return last() + map.size() + Math.abs(i) + (int) this.fields();
    }

    // switches has a table, a short list and a long one.
    static int switches(int x) {
        int sum = 0;
        switch (x & 3) { case 0: sum += 1; break; case 1: sum += 2; break; case 2: sum += 3; break; default: sum += 4; }
        switch (x) { case 1: sum += 5; break; case 1000: sum += 6; break; default: sum += 7; }
        switch (x) { case 10: case 200: case 3000: case 40000: case 500000: case 6000000: case 70000000: sum++; break; default: sum--; }
        return sum;
    }

    static Object constants(int x) {
        Class<?> literal = Bodies.class;
        IntUnaryOperator lambda = n -> n + x;
        return "text" + x + literal + 1234567 + 12345678901L + 1.25f + 2.5 + lambda.applyAsInt(x) + new int[2][3].length + new Bodies[1].length;
    }

    static int handle(MethodHandle h, int x) throws Throwable { return (int) h.invokeExact(x); }

    static int loops(Object any) {
        int sum = 0;
        for (int n = 0; n < 300; n++) {
            if (any instanceof Map) sum += n; else sum -= n;
        }
        long wide = sum;
        synchronized (any) { wide += 100000; }
        return (int) wide;
    }

    static void work(int rounds) throws Throwable {
        Bodies bodies = new Bodies();
        Map<String, Integer> map = new HashMap<>(), shared = new ConcurrentHashMap<>();
        MethodHandle h = MethodHandles.lookup().findStatic(Math.class, "abs", MethodType.methodType(int.class, int.class));
        for (int n = 0; n < rounds; n++) {
            map.put("k" + n % 7, n);
            shared.merge("k" + n % 7, n, Integer::sum);
            counted += bodies.fields() > 0 ? 1 : 0;
            counted += bodies.access(bodies.chars, n, n + 1) + bodies.calls(map) + switches(n) + handle(h, n) + loops(map);
            counted += constants(n).hashCode();
        }
    }

    public static void main(String[] args) throws Throwable {
        work(1);
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            work(200);
            System.out.println("worked");
        }
    }
}
