import java.sql.*;

/** A database in memory: inserts, joins and sums, by two connections. */
public class DB {
	public static void main(String[] args) throws Exception {
		Class.forName("org.h2.Driver");
		try (Connection c = DriverManager.getConnection("jdbc:h2:mem:t;DB_CLOSE_DELAY=-1"); Statement s = c.createStatement()) {
			s.execute("create table customer(id int primary key, name varchar, city int)");
			s.execute("create table sale(id int primary key, customer int, amount decimal(10,2), sold date)");
			s.execute("create index sale_customer on sale(customer)");
			try (PreparedStatement p = c.prepareStatement("insert into customer values(?,?,?)")) {
				for (int i = 0; i < 2000; i++) {
					p.setInt(1, i);
					p.setString(2, "name" + i);
					p.setInt(3, i % 37);
					p.execute();
				}
			}
		}
		Connection first = DriverManager.getConnection("jdbc:h2:mem:t"), other = DriverManager.getConnection("jdbc:h2:mem:t");
		Thread second = new Thread(() -> work(other, 1), "second");
		Rounds.report();
		second.setDaemon(true);
		second.start();
		work(first, 0);
	}

	static void work(Connection c, int who) {
		try {
			for (int round = 0;; round++) {
				insert(c, who, round);
				query(c, round);
			}
		} catch (SQLException e) {
			throw new RuntimeException(e);
		}
	}

	static void insert(Connection c, int who, int round) throws SQLException {
		try (PreparedStatement p = c.prepareStatement("merge into sale values(?,?,?,?)")) {
			for (int i = 0; i < 200; i++) {
				p.setInt(1, 2 * ((round * 200 + i) % 10000) + who);
				p.setInt(2, (i * 7 + round) % 2000);
				p.setBigDecimal(3, java.math.BigDecimal.valueOf(i * 17 % 1000, 2));
				p.setDate(4, new Date(86400000L * (i % 365)));
				p.execute();
				Rounds.DONE.increment();
			}
		}
	}

	static void query(Connection c, int round) throws SQLException {
		String sql = "select city, count(*), sum(amount) from sale join customer on customer = customer.id where city between ? and ? group by city order by 3 desc";
		try (PreparedStatement p = c.prepareStatement(sql)) {
			p.setInt(1, round % 20);
			p.setInt(2, round % 20 + 3);
			try (ResultSet r = p.executeQuery()) {
				while (r.next()) {
					r.getBigDecimal(3);
				}
			}
		}
	}
}
