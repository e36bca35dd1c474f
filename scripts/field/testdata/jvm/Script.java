import org.mozilla.javascript.*;

/** Rhino runs a script, compiled to bytecode and interpreted in turns. */
public class Script {
	static final String TEXT = "function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
			+ "function Point(x, y) { this.x = x; this.y = y; }\n"
			+ "Point.prototype.length = function() { return Math.sqrt(this.x * this.x + this.y * this.y); };\n"
			+ "function run(n) {\n"
			+ "  var all = [], i, s = 0, words = {};\n"
			+ "  for (i = 0; i < n; i++) all.push(new Point(i % 17, i % 13));\n"
			+ "  all.sort(function(a, b) { return a.length() - b.length(); });\n"
			+ "  for (i = 0; i < n; i++) { s += all[i].length(); var w = 'w' + (i % 100); words[w] = (words[w] || 0) + 1; }\n"
			+ "  var text = JSON.stringify(words).replace(/w(\\d)/g, 'v$1');\n"
			+ "  return s + fib(15) + text.length;\n"
			+ "}\n";

	public static void main(String[] args) {
		Rounds.report();
		for (int round = 0;; round++) {
			Context c = Context.enter();
			try {
				c.setOptimizationLevel(round % 2 == 0 ? 9 : -1);
				Scriptable scope = c.initStandardObjects();
				c.evaluateString(scope, TEXT, "script.js", 1, null);
				for (int i = 0; i < 20; i++) {
					c.evaluateString(scope, "run(2000)", "call.js", 1, null);
					Rounds.DONE.increment();
				}
			} finally {
				Context.exit();
			}
		}
	}
}
