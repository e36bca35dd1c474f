import java.util.*;

// Counts makes calls, checks, branches and switches in known shares, each of them count
// times. It makes more of them, and
// runs code of the JDK, for each line that it reads.
public class Counts {
    interface Shape { int area(int i); }
    static class Square implements Shape { public int area(int i) { return i * i; } }
    static class Circle implements Shape { public int area(int i) { return i * 3; } }
    static class Bow implements Shape { public int area(int i) { return i - 1; } }
    static class Dot implements Shape { public int area(int i) { return 0; } }
    static class Line implements Shape { public int area(int i) { return i; } }

    static int two(Shape s, int i) { return s.area(i); }   // 3 of 4 squares, 1 of 4 circles
    static int five(Shape s, int i) { return s.area(i); }  // each type as often
    static boolean nulls(Object o) { return o instanceof Square; }   // 1 of 4 nulls
    static boolean whole(Object o) { return o instanceof Square; }
    static int branch(int i) { if ((i & 3) == 0) return 1; return 2; } // not taken 1 of 4
    static int dense(int i) { switch (i & 3) { case 0: return 5; case 1: return 6; default: return 7; } }
    static int sparse(int i) { switch (i & 3000) { case 0: return 5; case 1000: return 6; default: return 7; } }

    static int sum;

    static void round(Shape[] pair, Shape[] all, int n) {
        for (int i = 0; i < n; i++) {
            sum += two(pair[i & 3], i) + five(all[i % 5], i);
            if (nulls(pair[(i & 3)] == pair[1] ? null : pair[0])) sum++;
            if (whole(pair[i & 3])) sum++;
            sum += branch(i) + dense(i) + sparse(i * 1000);
        }
    }

    // library runs code of the JDK.
    static void library() {
        Random random = new Random(7);
        for (int k = 0; k < 300; k++) {
            Map<String, Integer> hash = new HashMap<>(), tree = new TreeMap<>();
            List<String> list = new ArrayList<>();
            for (int i = 0; i < 200; i++) {
                String s = Integer.toString(random.nextInt(1000), 7);
                hash.merge(s, 1, Integer::sum);
                tree.put(s + i, i);
                list.add(s.replace('1', 'x').toUpperCase().trim());
            }
            Collections.sort(list);
            Deque<Integer> deque = new ArrayDeque<>(hash.values());
            PriorityQueue<Integer> heap = new PriorityQueue<>(tree.values());
            while (!deque.isEmpty()) sum += deque.poll() + heap.poll();
            StringBuilder b = new StringBuilder();
            for (String s : list) b.append(s).append(s.hashCode() % 10).append(',');
            sum += b.toString().split(",").length + new StringTokenizer(b.toString(), "x").countTokens();
            BitSet bits = new BitSet();
            for (Integer v : tree.values()) bits.set(v);
            sum += bits.cardinality() + Arrays.hashCode(list.toArray());
        }
    }

    static void rounds(int n) {
        Shape[] pair = {new Square(), new Circle(), new Square(), new Square()};
        Shape[] all = {new Square(), new Circle(), new Bow(), new Dot(), new Line()};
        for (int k = 0; k < n; k++) round(pair, all, 2000);
    }

    public static void main(String[] args) throws Exception {
        rounds(Integer.parseInt(args[0]));
        System.out.println("ready " + sum);
        for (int c; (c = System.in.read()) >= 0; ) {
            if (c != '\n') continue;
            rounds(60);
            library();
            System.out.println("done " + sum);
        }
    }
}
