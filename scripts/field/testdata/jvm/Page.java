import org.mozilla.javascript.*;

/** Equal requests to Rhino: a script of two functions, one run as bytecode and one interpreted. */
public class Page {
	static final String TEXT = "function Point(x, y) { this.x = x; this.y = y; }\n"
			+ "Point.prototype.length = function() { return Math.sqrt(this.x * this.x + this.y * this.y); };\n"
			+ "function run(n) {\n"
			+ "  var all = [], i, s = 0, words = {};\n"
			+ "  for (i = 0; i < n; i++) all.push(new Point(i % 17, i % 13));\n"
			+ "  all.sort(function(a, b) { return a.length() - b.length(); });\n"
			+ "  for (i = 0; i < n; i++) { s += all[i].length(); var w = 'w' + (i % 10); words[w] = (words[w] || 0) + 1; }\n"
			+ "  return s + JSON.stringify(words).replace(/w(\\d)/g, 'v$1').length;\n"
			+ "}\n";

	public static void main(String[] args) {
		Rounds.report();
		Scriptable compiled = load(9), interpreted = load(-1);
		for (;;) {
			request(compiled, 60);
			request(interpreted, 20);
			Rounds.DONE.increment();
		}
	}

	static Scriptable load(int level) {
		Context c = Context.enter();
		try {
			c.setOptimizationLevel(level);
			Scriptable scope = c.initStandardObjects();
			c.evaluateString(scope, TEXT, "page.js", 1, null);
			return scope;
		} finally {
			Context.exit();
		}
	}

	static void request(Scriptable scope, int n) {
		Context c = Context.enter();
		try {
			((Function) scope.get("run", scope)).call(c, scope, scope, new Object[] {n});
		} finally {
			Context.exit();
		}
	}
}
