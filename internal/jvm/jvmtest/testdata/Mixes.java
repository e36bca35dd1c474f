import java.io.BufferedReader;
import java.io.InputStreamReader;

// Mixes allocates arrays of up to three sizes, each at a site of its own. Its arguments are how many
// bytes each array has, and of how many parts of all bytes: "79x65536 21x64". With the property "threads" so
// many threads do it. For each line of input it writes "counts", and how many bytes each site has allocated.
public class Mixes {
    static final long header = 16;
    static volatile Mixes[] workers;

    final int[] sizes;
    final long[] limits; // of a random number of 32 bits, below which a site is chosen
    final long[] bytes;  // written by one thread
    volatile byte[] last;
    volatile long published;

    Mixes(String[] args) {
        sizes = new int[args.length];
        limits = new long[args.length];
        bytes = new long[args.length];
        double[] often = new double[args.length];
        double all = 0;
        for (int i = 0; i < args.length; i++) {
            String[] part = args[i].split("x");
            sizes[i] = Integer.parseInt(part[1]) - (int) header;
            often[i] = Double.parseDouble(part[0]) / Integer.parseInt(part[1]);
            all += often[i];
        }
        double sum = 0;
        for (int i = 0; i < args.length; i++) {
            sum += often[i];
            limits[i] = (long) (sum / all * 0x1p32);
        }
        limits[args.length - 1] = 1L << 32;
    }

    void first() { last = new byte[sizes[0]]; }
    void second() { last = new byte[sizes[1]]; }
    void third() { last = new byte[sizes[2]]; }

    // The order is random, and a millisecond has at most 512 KB: ccmapd takes 5,000 events a second.
    void allocate(long random) {
        for (long sinceSleep = 0;;) {
            random ^= random << 13;
            random ^= random >>> 7;
            random ^= random << 17;
            long choice = random >>> 32;
            int site = 0;
            while (choice >= limits[site]) {
                site++;
            }
            switch (site) {
                case 0 -> first();
                case 1 -> second();
                default -> third();
            }
            long size = sizes[site] + header;
            bytes[site] += size;
            sinceSleep += size;
            if (sinceSleep > 1 << 19) {
                sinceSleep = 0;
                published = random;
                pause();
            }
        }
    }

    static void pause() {
        try {
            Thread.sleep(1);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }

    static String counts(int sites) {
        StringBuilder text = new StringBuilder("counts");
        for (int i = 0; i < sites; i++) {
            long sum = 0;
            for (Mixes w : workers) {
                long seen = w.published; // makes its counts visible
                sum += w.bytes[i];
            }
            text.append(' ').append(sum);
        }
        return text.toString();
    }

    public static void main(String[] args) throws Exception {
        Mixes[] all = new Mixes[Integer.getInteger("threads", 1)];
        for (int i = 0; i < all.length; i++) {
            Mixes w = all[i] = new Mixes(args);
            long seed = 88172645463325252L + 1_000_003L * i;
            Thread t = new Thread(() -> w.allocate(seed));
            t.setDaemon(true);
            t.start();
        }
        workers = all;
        System.out.println("ready");
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        while (in.readLine() != null) {
            System.out.println(counts(args.length));
        }
    }
}
