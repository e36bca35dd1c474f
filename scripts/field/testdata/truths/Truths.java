import java.io.*;
import java.lang.management.*;

/**
 * Truths does work whose shares are known, as main.go does: by ten methods, each in proportion to its weight. It says
 * "ready", waits for a line, works, says "done", and waits for the end of its input.
 *
 * <p>java -Xbatch Truths WEIGHTS MILLISECONDS
 *
 * <p>WEIGHTS are whole numbers with commas between them; the time is of the CPU.
 */
public class Truths {
	static final int UNIT = 20; // µs of a weight of 1
	static int sum; // so that no work is for nothing

	static int f1(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f2(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f3(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f4(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f5(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f6(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f7(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f8(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f9(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int f10(int n) {
		int x = 0;
		for (int i = 0; i < n; i++) {
			x = x * x + i;
		}
		return x;
	}

	static int call(int function, int n) {
		return switch (function) {
			case 1 -> f1(n);
			case 2 -> f2(n);
			case 3 -> f3(n);
			case 4 -> f4(n);
			case 5 -> f5(n);
			case 6 -> f6(n);
			case 7 -> f7(n);
			case 8 -> f8(n);
			case 9 -> f9(n);
			default -> f10(n);
		};
	}

	static long used() { return CLOCK.getCurrentThreadCpuTime(); }

	static final ThreadMXBean CLOCK = ManagementFactory.getThreadMXBean();

	/** Has the second compiler compile all methods. */
	static void warm() {
		for (int round = 0; round < 20000; round++) {
			for (int f = 1; f <= 10; f++) sum += call(f, 100);
		}
	}

	/** Returns the steps in a microsecond of CPU time. */
	static int calibrate() {
		int steps = 1 << 26;
		long began = used();
		sum += f1(steps);
		return (int) Math.max(1, steps * 1000L / (used() - began));
	}

	static void serial(int[] steps, long total) {
		for (long end = used() + total; used() < end; ) {
			for (int f = 0; f < steps.length; f++) sum += call(f + 1, steps[f]);
		}
	}

	public static void main(String[] args) throws IOException {
		warm();
		int speed = calibrate();
		String[] weights = args[0].split(",");
		int[] steps = new int[weights.length];
		for (int i = 0; i < steps.length; i++) steps[i] = Integer.parseInt(weights[i]) * UNIT * speed;
		var in = new BufferedReader(new InputStreamReader(System.in));
		System.err.println("ready");
		in.readLine();
		serial(steps, Long.parseLong(args[1]) * 1_000_000);
		System.out.println("done");
		while (in.readLine() != null) {}
	}
}
