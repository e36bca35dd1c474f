import java.io.*;
import java.lang.management.ManagementFactory;

/**
 * Three jobs in turn. Each works its rows off by the same method, one time in eight. The method's call has three
 * receivers, and each job has one. It prints how many elements were worked off, and in how much CPU time, ns. Each
 * line of the input makes the jobs take a branch that they have never taken, so that their code is compiled anew.
 */
public class Jobs {
	interface Op {
		double of(double a, double b);
	}

	static final class Sum implements Op {
		public double of(double a, double b) { return a + b; }
	}

	static final class Product implements Op {
		public double of(double a, double b) { return a * b; }
	}

	static final class Difference implements Op {
		public double of(double a, double b) { return a - b; }
	}

	static final int SIZE = 1024;
	static final Op[] ALL = {new Sum(), new Product(), new Difference()};
	static volatile int told;
	static double noted;

	static final int[] MARKS = new int[16], COUNTS = new int[16], SUMS = new int[16], LIMITS = new int[16];

	/** Loops of all jobs. The first ones take no time, and much code: C2 inlines fold nowhere, once it has compiled it. */
	static void fold(Op op, double[] to, double[] a, double[] b) {
		for (int i = 0; i < MARKS.length; i++) MARKS[i] += i;
		for (int i = 0; i < COUNTS.length; i++) COUNTS[i] += MARKS[i];
		for (int i = 0; i < SUMS.length; i++) SUMS[i] = COUNTS[i] * 3;
		for (int i = 0; i < LIMITS.length; i++) LIMITS[i] ^= SUMS[i];
		for (int i = 0; i < MARKS.length; i++) MARKS[i] -= LIMITS[i];
		for (int i = 0; i < COUNTS.length; i++) COUNTS[i] = SUMS[i] - 7;
		for (int i = 0; i < SUMS.length; i++) SUMS[i] &= MARKS[i];
		int n = Math.min(to.length, Math.min(a.length, b.length));
		for (int i = 0; i < n; i++) {
			to[i] = op.of(a[i], b[i]);
		}
	}

	/** Called often by main, and seldom by jobs. */
	static double note(Op op, double x) { return op.of(x, 0.5); }

	static final class Sums implements Runnable {
		final Sum op = new Sum();
		final double[] to = new double[SIZE], a = new double[SIZE], b = new double[SIZE];
		int n;

		public void run() {
			a[n & (SIZE - 1)] = n++;
			if ((n & 63) == 0) noted = note(ALL[(n >>> 6) % 3], n);
			if ((n & 7) == 0) {
				fold(op, to, a, b);
				if (told > 0) {
					n += 8;
					if (told > 1) n += 16;
				}
			}
		}
	}

	static final class Products implements Runnable {
		final Product op = new Product();
		final double[] to = new double[SIZE], a = new double[SIZE], b = new double[SIZE];
		int n;

		public void run() {
			a[n & (SIZE - 1)] = n++;
			if ((n & 63) == 0) noted = note(ALL[(n >>> 6) % 3], n);
			if ((n & 7) == 0) {
				fold(op, to, a, b);
				if (told > 0) {
					n += 8;
					if (told > 1) n += 16;
				}
			}
		}
	}

	static final class Differences implements Runnable {
		final Difference op = new Difference();
		final double[] to = new double[SIZE], a = new double[SIZE], b = new double[SIZE];
		int n;

		public void run() {
			a[n & (SIZE - 1)] = n++;
			if ((n & 63) == 0) noted = note(ALL[(n >>> 6) % 3], n);
			if ((n & 7) == 0) {
				fold(op, to, a, b);
				if (told > 0) {
					n += 8;
					if (told > 1) n += 16;
				}
			}
		}
	}

	public static void main(String[] args) throws Exception {
		var clock = ManagementFactory.getThreadMXBean();
		Thread reader = new Thread(() -> {
			try (BufferedReader in = new BufferedReader(new InputStreamReader(System.in))) {
				while (in.readLine() != null) told++;
				System.exit(0);
			} catch (IOException e) {
				System.exit(1);
			}
		});
		reader.setDaemon(true);
		reader.start();
		Runnable[] jobs = {new Sums(), new Products(), new Differences()};
		System.err.println("ready");
		for (long done = 0;;) {
			for (int i = 0; i < 80000; i++) {
				jobs[i % 3].run();
				noted += note(ALL[i % 3], i);
			}
			done += 10000 * SIZE;
			System.out.println("done " + done + " " + clock.getCurrentThreadCpuTime());
		}
	}
}
