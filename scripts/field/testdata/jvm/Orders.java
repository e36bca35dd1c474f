import java.sql.*;

/** Equal requests to a database in memory: ten orders are written, and summed up by city. */
public class Orders {
	static final String SUM = "select city, count(*), sum(amount) from sale join customer on customer = customer.id where city between ? and ? group by city order by 3 desc";

	public static void main(String[] args) throws Exception {
		Class.forName("org.h2.Driver");
		Rounds.report();
		try (Connection c = DriverManager.getConnection("jdbc:h2:mem:t"); Statement s = c.createStatement()) {
			s.execute("create table customer(id int primary key, name varchar, city int)");
			s.execute("create table sale(id int primary key, customer int, amount decimal(10,2))");
			for (int i = 0; i < 100; i++) {
				s.execute("insert into customer values(" + i + ", 'name" + i + "', " + i % 37 + ")");
			}
			for (int i = 0;; i++) {
				request(c, i);
				Rounds.DONE.increment();
			}
		}
	}

	static void request(Connection c, int number) throws SQLException {
		try (PreparedStatement p = c.prepareStatement("merge into sale values(?,?,?)")) {
			for (int i = 0; i < 10; i++) {
				p.setInt(1, (number * 10 + i) % 100);
				p.setInt(2, (i * 7 + number) % 100);
				p.setBigDecimal(3, java.math.BigDecimal.valueOf(i * 17 % 1000, 2));
				p.execute();
			}
		}
		try (PreparedStatement p = c.prepareStatement(SUM)) {
			p.setInt(1, number % 20);
			p.setInt(2, number % 20 + 3);
			try (ResultSet r = p.executeQuery()) {
				while (r.next()) {
					r.getBigDecimal(3);
				}
			}
		}
	}
}
