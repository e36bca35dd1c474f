import java.net.URI;
import java.util.*;
import javax.tools.*;

/** The JDK's own compiler in this process, again and again on one made class. */
public class Compile {
	public static void main(String[] args) throws Exception {
		Rounds.report();
		JavaCompiler compiler = ToolProvider.getSystemJavaCompiler();
		for (int round = 0;; round++) {
			String name = "Made" + round % 5;
			List<String> options = List.of("-d", System.getProperty("java.io.tmpdir"), "-proc:none");
			if (!compiler.getTask(null, null, null, options, null, List.of(new Text(name, source(name)))).call()) {
				throw new IllegalStateException("not compiled");
			}
			Rounds.DONE.increment();
		}
	}

	static String source(String name) {
		StringBuilder b = new StringBuilder("import java.util.*;\nimport java.util.stream.*;\npublic class " + name + " {\n");
		for (int i = 0; i < 60; i++) {
			b.append("  static <T extends Comparable<T>> List<T> sorted" + i + "(Collection<? extends T> in) {\n")
					.append("    return in.stream().filter(x -> x != null).sorted(Comparator.reverseOrder()).map(x -> (T) x).collect(Collectors.toList());\n  }\n")
					.append("  int field" + i + " = " + i + ";\n  int get" + i + "(int a) { int s = 0; for (int i = 0; i < a; i++) { s += i * field" + i + "; } return switch (a) { case 1 -> s; default -> s + 1; }; }\n");
		}
		return b.append("}\n").toString();
	}

	static class Text extends SimpleJavaFileObject {
		final String text;

		Text(String name, String text) {
			super(URI.create("string:///" + name + ".java"), Kind.SOURCE);
			this.text = text;
		}

		@Override
		public CharSequence getCharContent(boolean ignore) {
			return text;
		}
	}
}
