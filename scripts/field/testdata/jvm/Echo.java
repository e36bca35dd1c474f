import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.Iterator;

/**
 * A server of one thread and its only client, over loopback. Each computes for so long at a
 * request that the two wake each other some 5,000 times a second.
 */
public class Echo {
	static final long TURN = 180_000; // ns of a thread, at each request

	public static void main(String[] args) throws Exception {
		int steps = calibrate();
		ServerSocketChannel listener = ServerSocketChannel.open().bind(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0));
		Thread server = new Thread(() -> serve(listener, steps), "server");
		server.setDaemon(true);
		server.start();
		try (SocketChannel channel = SocketChannel.open(listener.getLocalAddress())) {
			Rounds.report();
			for (ByteBuffer message = ByteBuffer.allocate(64);;) {
				message.clear();
				message.putLong(compute(steps)).position(64).flip();
				while (message.hasRemaining()) channel.write(message);
				message.clear();
				while (message.hasRemaining()) channel.read(message);
				Rounds.DONE.increment();
			}
		}
	}

	static void serve(ServerSocketChannel listener, int steps) {
		try {
			Selector selector = Selector.open();
			listener.configureBlocking(false);
			listener.register(selector, SelectionKey.OP_ACCEPT);
			for (;;) {
				selector.select();
				for (Iterator<SelectionKey> i = selector.selectedKeys().iterator(); i.hasNext(); i.remove()) answer(selector, i.next(), steps);
			}
		} catch (IOException e) {
			throw new IllegalStateException(e);
		}
	}

	static void answer(Selector selector, SelectionKey key, int steps) throws IOException {
		if (key.isAcceptable()) {
			SocketChannel channel = ((ServerSocketChannel) key.channel()).accept();
			channel.configureBlocking(false);
			channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocate(64));
			return;
		}
		ByteBuffer message = (ByteBuffer) key.attachment();
		SocketChannel channel = (SocketChannel) key.channel();
		if (channel.read(message) < 0 || message.hasRemaining()) return;
		message.clear();
		message.putLong(compute(steps)).position(64).flip();
		while (message.hasRemaining()) channel.write(message);
		message.clear();
	}

	static long compute(int steps) {
		long sum = 0;
		for (int i = 0; i < steps; i++) sum = 31 * sum + Integer.toString(i).hashCode();
		return sum;
	}

	/** Returns how many steps take a turn, once they are compiled. */
	static int calibrate() {
		final int some = 1000;
		long best = Long.MAX_VALUE;
		for (long end = System.nanoTime() + 1_000_000_000L; System.nanoTime() < end;) {
			long began = System.nanoTime();
			if (compute(some) == 42) throw new IllegalStateException();
			best = Math.min(best, System.nanoTime() - began);
		}
		return (int) Math.max(1, some * TURN / best);
	}
}
