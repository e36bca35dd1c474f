import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.CountDownLatch;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;
import org.apache.zookeeper.server.ServerCnxnFactory;
import org.apache.zookeeper.server.ZooKeeperServer;

/** ZooKeeper, a server and three clients in one process. A client reads ten times and writes once, and waits for each answer. */
public class Zoo {
	public static void main(String[] args) throws Exception {
		System.setProperty("zookeeper.admin.enableServer", "false");
		System.setProperty("zookeeper.forceSync", "no");
		Path dir = Files.createTempDirectory("zoo");
		ServerCnxnFactory server = ServerCnxnFactory.createFactory(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 100);
		server.startup(new ZooKeeperServer(dir.toFile(), dir.toFile(), 2000));
		for (int i = 0; i < 3; i++) {
			ZooKeeper client = connect(server.getLocalPort());
			Thread t = new Thread(() -> work(client), "client");
			t.setDaemon(true);
			t.start();
		}
		Rounds.report();
		server.join();
	}

	static ZooKeeper connect(int port) throws Exception {
		CountDownLatch connected = new CountDownLatch(1);
		ZooKeeper client = new ZooKeeper("127.0.0.1:" + port, 30_000, e -> {
			if (e.getState() == KeeperState.SyncConnected) connected.countDown();
		});
		connected.await();
		return client;
	}

	static void work(ZooKeeper client) {
		try {
			String node = client.create("/node", new byte[512], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT_SEQUENTIAL);
			for (;;) {
				byte[] data = null;
				for (int i = 0; i < 10; i++) data = client.getData(node, false, null);
				client.setData(node, data, -1);
				Rounds.DONE.increment();
			}
		} catch (Exception e) {
			throw new IllegalStateException(e);
		}
	}
}
