package classes_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
)

// bodies returns the bodies of the methods of classes, by name and descriptor.
func bodies(t testing.TB, table *classes.Table, want func(*classes.Class) bool) map[string]uint64 {
	t.Helper()
	hashes := make(map[string]uint64)
	for name, methods := range all(t, table, want) {
		for _, m := range methods {
			hash, cost := table.Body(m)
			if m.CodeSize > 0 && cost < m.CodeSize {
				t.Errorf("%s costs %d", name, cost)
			}
			if (hash == 0) != (m.CodeSize == 0) {
				t.Errorf("%s%s of %d bytes has the body %#x", name, m.Descriptor, m.CodeSize, hash)
			}
			hashes[name+m.Descriptor] = hash
		}
	}
	return hashes
}

// TestBodiesStay: a method has one body, on each JVM and however it runs: interpreted, compiled, out of an archive of
// classes or not. By then the JVM has written over its bytecode.
func TestBodiesStay(t *testing.T) {
	isOurs := func(c *classes.Class) bool {
		return c.Name == "Bodies" || strings.HasPrefix(c.Name, "Bodies$") && !strings.Contains(c.Name, "Lambda")
	}
	names := []string{"java.util.HashMap", "java.lang.String", "java.util.concurrent.ConcurrentHashMap", "java.lang.Object", "java.lang.invoke.MethodHandles$Lookup"}
	slow := map[string][]string{"17": {"-Xint"}, "25": {"-Xcomp", "-XX:TieredStopAtLevel=1"}} // many seconds each
	ours := make(map[string]uint64)
	for _, jdk := range jvmtest.JDKs(t) {
		theirs := make(map[string]uint64)
		isTheirs := func(c *classes.Class) bool { return slices.Contains(names, c.Name) }
		for _, flags := range append(variants[jdk.Name], slow[jdk.Name]) {
			t.Run(jdk.Name+strings.Join(flags, ""), func(t *testing.T) {
				j := jdk.Start(t, flags, "Bodies")
				table := open(t, j)
				agree(t, ours, bodies(t, table, isOurs))
				cold := bodies(t, table, isTheirs)
				agree(t, theirs, cold)
				j.Tell(t, "work") // until bytecodes are fast ones
				if !j.Out.Scan() || j.Out.Text() != "worked" {
					t.Fatalf("the program says %q", j.Out.Text())
				}
				table.Forget()
				agree(t, ours, bodies(t, table, isOurs))
				agree(t, theirs, bodies(t, table, isTheirs))
			})
		}
	}
}

// agree compares bodies with those that were seen before, and adds new ones.
func agree(t *testing.T, seen, now map[string]uint64) {
	t.Helper()
	if len(now) < 5 {
		t.Errorf("%d methods", len(now))
	}
	for name, hash := range now {
		if before, known := seen[name]; known && before != hash {
			t.Errorf("%s has the body %#x, and had %#x", name, hash, before)
		}
		seen[name] = hash
	}
}

// changed is a class with a method f, which is changed, and others, which stay though the constants get other numbers.
const changed = `import java.util.function.*;
public class Changed {
	int a, b; static long c; int d() { return a; } int e() { return b; } static String s;
	%s
	Object f(int i, Object o) throws Throwable { %s }
	int stays(int i) { a += i; c = 1234567890123L * i; s = "text" + i + a; IntSupplier l = this::d; return l.getAsInt() + d() + (s instanceof String ? 1 : 0); }
	public static void run() throws Throwable {
		Changed x = new Changed();
		x.stays(1);
		try { x.f(1, "o"); } catch (ClassCastException e) {}
	}
}`

const changedF = "Changed.f(ILjava/lang/Object;)Ljava/lang/Object;"

// TestBodiesTell: another call, field, class, text or number is another body, in an instruction of the same size. Other
// methods of the class stay.
func TestBodiesTell(t *testing.T) {
	variants := map[string][2]string{
		"":                  {"", "return d();"},
		"constants before":  {`static int early(int i) { s = "a" + "b"; return String.valueOf(i + 77777).length() + Integer.bitCount(i); }`, "return d();"},
		"a call":            {"", "return e();"},
		"a field":           {"", "return a;"},
		"another field":     {"", "return b;"},
		"a class":           {"", "return (Integer) o;"},
		"another class":     {"", "return (Long) o;"},
		"a text":            {"", `return "one";`},
		"another text":      {"", `return "two";`},
		"a number":          {"", "return i + 1000001;"},
		"another number":    {"", "return i + 1000002;"},
		"a long":            {"", "return i + 1000001L;"},
		"another long":      {"", "return i + 1000002L;"},
		"a double":          {"", "return i + 1.5;"},
		"a float":           {"", "return i + 1.5f;"},
		"another float":     {"", "return i + 2.5f;"},
		"a class's literal": {"", "return Integer.class;"},
		"another literal":   {"", "return Long.class;"},
		"a reference":       {"", "IntSupplier l = this::d; return l;"},
		"another reference": {"", "IntSupplier l = this::e; return l;"},
		"a joined text":     {"", `return "a" + i;`},
		"another text of i": {"", `return "b" + i;`},
		"cases":             {"", "switch (i) { case 1: return 3; case 900: return 4; default: return 5; }"},
		"other cases":       {"", "switch (i) { case 1: return 3; case 901: return 4; default: return 5; }"},
		"a table":           {"", "switch (i) { case 1: return 3; case 2: return 4; case 3: return 7; default: return 5; }"},
	}
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			of, stays := make(map[uint64]string), make(map[string]uint64)
			for name, got := range bodiesOfTexts(t, jdk, variants) {
				f := got[changedF]
				if same, known := of[f]; known && variants[name][1] != variants[same][1] {
					t.Errorf("%q and %q have one body", name, same)
				}
				if of[f] = name; variants[name][1] == variants[""][1] {
					agree(t, stays, got)
				}
				delete(got, changedF)
				agree(t, stays, got)
			}
			if len(of) != len(variants)-1 {
				t.Errorf("%d bodies of %d variants, of which two have one", len(of), len(variants))
			}
		})
	}
}

// firstCompiler is the flag of a JVM that runs for a second: the second compiler takes more time than it saves.
const firstCompiler = "-XX:TieredStopAtLevel=1"

// bodiesOfTexts lets a JVM compile and run variants of a class, each with a loader of its own, and returns the bodies
// of their methods.
func bodiesOfTexts(t *testing.T, jdk jvmtest.JDK, variants map[string][2]string) map[string]map[string]uint64 {
	t.Helper()
	dir, names := t.TempDir(), slices.Sorted(maps.Keys(variants))
	for i, name := range names {
		text := fmt.Sprintf(changed, variants[name][0], variants[name][1])
		of := filepath.Join(dir, strconv.Itoa(i))
		for _, err := range []error{os.Mkdir(of, 0o755), os.WriteFile(filepath.Join(of, "Changed.java"), []byte(text), 0o644)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	table := open(t, jdk.Start(t, []string{firstCompiler}, "Variants", dir, strconv.Itoa(len(names))))
	found := make(map[string]map[string]uint64)
	for i, name := range names {
		found[name] = bodies(t, table, func(c *classes.Class) bool { return c.Name == "Changed" && c.Loader == "variant-"+strconv.Itoa(i) })
	}
	return found
}

// BenchmarkBody hashes the methods of the JDK's classes that a small program loads.
func BenchmarkBody(b *testing.B) {
	for _, jdk := range jvmtest.JDKs(b) {
		table := open(b, jdk.Start(b, nil, "Names"))
		var methods []*classes.Method
		for _, some := range all(b, table, func(c *classes.Class) bool { return strings.HasPrefix(c.Name, "java.util.") }) {
			for _, m := range some {
				if m.CodeSize > 0 {
					methods = append(methods, m)
				}
			}
		}
		b.Run("jdk="+jdk.Name, func(b *testing.B) {
			i, cost := 0, 0
			for b.Loop() {
				_, c := table.Body(methods[i%len(methods)])
				i, cost = i+1, cost+c
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(cost), "ns/cost")
		})
	}
}
