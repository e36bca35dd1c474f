import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.List;
import java.util.function.IntUnaryOperator;

// Loaders loads classes, each with a hidden one, by loaders of their own, runs them and drops them: for each number that
// it reads, so many, and then it writes how many are gone. The methods of a class have one number
// in their names. The class has it too, or the name of all classes is the same.
public class Loaders {
    static class Own extends ClassLoader {
        Class<?> define(byte[] b) { return defineClass(null, b, 0, b.length); }
    }

    static byte[] template;

    static byte[] unit(int n, boolean renamed) {
        String text = new String(template, StandardCharsets.ISO_8859_1), number = String.format("%04d", n);
        text = text.replace("work0000", "work" + number).replace("help0000", "help" + number);
        if (renamed) text = text.replace("Unit0000", "Unit" + number);
        return text.getBytes(StandardCharsets.ISO_8859_1);
    }

    static Class<?> load(int n) { return new Own().define(unit(n, n % 2 == 0)); }

    static int sum, next = 1;

    static int round(int n) throws Exception {
        ArrayDeque<Object> kept = new ArrayDeque<>();
        List<WeakReference<?>> all = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            Class<?> c = load(next++);
            all.add(new WeakReference<>(c));
            var constructor = c.getDeclaredConstructor();
            constructor.setAccessible(true);
            IntUnaryOperator unit = (IntUnaryOperator) constructor.newInstance();
            for (int k = 0; k < 400; k++) sum += unit.applyAsInt(k);
            kept.add(unit);
            if (kept.size() > 20) kept.remove();
            if (i % 25 == 0) System.gc();
        }
        kept.clear();
        System.gc();
        int gone = 0;
        for (WeakReference<?> r : all) if (r.get() == null) gone++;
        return gone;
    }

    public static void main(String[] args) throws Exception {
        try (var in = Loaders.class.getResourceAsStream("Unit0000.class")) { template = in.readAllBytes(); }
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) System.out.println(round(Integer.parseInt(line)));
    }
}

class Unit0000 implements IntUnaryOperator {
    public int applyAsInt(int i) { return work0000(i); }
    static int work0000(int i) {
        IntUnaryOperator plus = x -> x + i;
        return help0000(i) + plus.applyAsInt(i);
    }
    static int help0000(int i) { return i * 3; }
}
