import java.util.concurrent.atomic.LongAdder;

/** Counts what a program has done, and prints the count and the time, ns, again and again. */
class Rounds {
	static final LongAdder DONE = new LongAdder();

	static void report() {
		Thread t = new Thread(() -> {
			try {
				for (;; Thread.sleep(20)) {
					System.out.println("done " + DONE.sum() + " " + System.nanoTime());
				}
			} catch (InterruptedException e) {
				throw new IllegalStateException(e);
			}
		}, "report");
		t.setDaemon(true);
		t.start();
		System.err.println("ready");
	}
}
