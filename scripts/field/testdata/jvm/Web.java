import java.io.*;
import java.net.*;
import java.nio.file.*;
import org.apache.catalina.*;
import org.apache.catalina.startup.Tomcat;

/** Tomcat serves a JSP page to four clients of its own, over loopback. */
public class Web {
	public static void main(String[] args) throws Exception {
		Path base = Files.createTempDirectory("web");
		Path root = Files.createDirectories(base.resolve("webapps/ROOT"));
		Files.writeString(root.resolve("index.jsp"), "<%@ page import=\"java.util.*\" %>\n"
				+ "<%! static String upper(String s) { return s.toUpperCase(Locale.ROOT); } %>\n<html><body><table>\n"
				+ "<% Map<String, Integer> rows = new TreeMap<>(); for (int i = 0; i < 200; i++) rows.merge(\"row\" + (i * 31 % 97), i, Integer::sum);\n"
				+ "for (Map.Entry<String, Integer> e : rows.entrySet()) { %><tr><td><%= upper(e.getKey()) %></td><td><%= String.format(\"%05d\", e.getValue()) %></td></tr>\n<% } %>\n"
				+ "</table>${1 + 2} ${param.q}</body></html>\n");
		Tomcat tomcat = new Tomcat();
		tomcat.setBaseDir(base.toString());
		tomcat.setPort(0);
		tomcat.setSilent(true);
		tomcat.addWebapp("", root.toString());
		tomcat.getConnector().setProperty("address", "127.0.0.1");
		tomcat.start();
		URI page = URI.create("http://127.0.0.1:" + tomcat.getConnector().getLocalPort() + "/index.jsp?q=x");
		fetch(page);
		Rounds.report();
		for (int i = 0; i < 4; i++) {
			Thread t = new Thread(() -> {
				for (;;) {
					fetch(page);
					Rounds.DONE.increment();
				}
			}, "client" + i);
			t.setDaemon(true);
			t.start();
		}
		tomcat.getServer().await();
	}

	static void fetch(URI page) {
		try {
			HttpURLConnection c = (HttpURLConnection) page.toURL().openConnection();
			try (InputStream in = c.getInputStream()) {
				in.readAllBytes();
			}
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}
}
