package classes_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// TestMain removes the Java programs that the tests have compiled.
func TestMain(m *testing.M) { jvmtest.Main(m) }

// open returns the table of a JVM of a test.
func open(t testing.TB, j *jvmtest.JVM) *classes.Table {
	t.Helper()
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", j.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer maps.Close()
	vm, err := vmstructs.Open(context.Background(), process.MemoryOf(j.PID, nil), maps)
	if err != nil {
		t.Fatal(err)
	}
	table, err := classes.New(vm)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// all returns all methods of the classes that a test wants, by class and method.
func all(t testing.TB, table *classes.Table, want func(*classes.Class) bool) map[string][]*classes.Method {
	t.Helper()
	methods := make(map[string][]*classes.Method)
	err := table.Walk(func(c *classes.Class) bool {
		if !want(c) {
			return true
		}
		for _, h := range table.Headers(nil, c) {
			m, err := table.Method(h.Method)
			if err != nil {
				t.Errorf("a method of %s: %v", c.Name, err)
				continue
			}
			methods[m.FullName()] = append(methods[m.FullName()], m)
		}
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return methods
}

// variants are flags that move what the table reads.
var variants = map[string][][]string{
	"17": {nil, {"-XX:-UseCompressedClassPointers"}, {"-XX:+UseSerialGC", "-Xshare:off"}, {"-XX:+UseZGC"}},
	"25": {nil, {"-XX:-UseCompressedClassPointers"}, {"-XX:+UseCompactObjectHeaders", "-Xshare:off"}, {"-XX:+UseZGC"}},
}

// listed is what javap tells of a method.
type listed struct {
	static bool
	lines  []string // "number: index"
	calls  map[int]string
}

// TestAgainstJavap compares names, descriptors, lines and calls of classes of the JDK
// with what its own javap prints.
func TestAgainstJavap(t *testing.T) {
	names := []string{"java.util.HashMap", "java.lang.String", "java.util.concurrent.ConcurrentHashMap"}
	for _, jdk := range jvmtest.JDKs(t) {
		want := javap(t, jdk, names...)
		for _, flags := range variants[jdk.Name] {
			t.Run(jdk.Name+strings.Join(flags, ""), func(t *testing.T) {
				table := open(t, jdk.Start(t, flags, "Names"))
				got := all(t, table, func(c *classes.Class) bool { return slices.Contains(names, c.Name) })
				compare(t, table, got, want)
			})
		}
	}
}

func compare(t *testing.T, table *classes.Table, got map[string][]*classes.Method, want map[string]listed) {
	t.Helper()
	n, calls := 0, 0
	for _, methods := range got {
		for _, m := range methods {
			n++
			w, ok := want[m.FullName()+m.Descriptor]
			if !ok {
				t.Errorf("%s%s is not in the class file", m.FullName(), m.Descriptor)
				continue
			}
			if file := strings.ReplaceAll(m.Class.Name, ".", "/") + ".java"; m.Map().File != file {
				t.Errorf("%s is of %s, want %s", m.FullName(), m.Map().File, file)
			}
			if m.Static != w.static {
				t.Errorf("%s%s is static: %v, want %v", m.FullName(), m.Descriptor, m.Static, w.static)
			}
			var lines []string
			for _, l := range m.Lines {
				lines = append(lines, fmt.Sprintf("%d: %d", l.Number, l.Index))
			}
			slices.Sort(lines)
			if !slices.Equal(lines, w.lines) {
				t.Errorf("%s%s has lines %v, want %v", m.FullName(), m.Descriptor, lines, w.lines)
			}
			for index, call := range w.calls {
				c, ok := table.Callee(m, index)
				if name := c.Class + "." + c.Name + c.Descriptor; !ok || name != call {
					t.Errorf("%s%s calls %s at %d, want %s", m.FullName(), m.Descriptor, name, index, call)
				}
				calls++
			}
		}
	}
	if n != len(want) || calls < 500 {
		t.Errorf("%d methods and %d calls, want %d methods", n, calls, len(want))
	}
}

// javap returns the methods of classes as the JDK's own tool prints them.
func javap(t *testing.T, jdk jvmtest.JDK, classes ...string) map[string]listed {
	t.Helper()
	out, err := exec.Command(filepath.Join(jdk.Home, "bin/javap"), append([]string{"-J" + firstCompiler, "-p", "-s", "-c", "-l"}, classes...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	methods, printed := make(map[string]listed), strings.Split(string(out), "Compiled from ")[1:]
	if len(printed) != len(classes) {
		t.Fatalf("javap prints %d classes, want %d", len(printed), len(classes))
	}
	for i, class := range classes {
		readClass(t, class, printed[i], methods)
	}
	return methods
}

// readClass adds the methods of a class that javap has printed.
func readClass(t *testing.T, class, printed string, methods map[string]listed) {
	t.Helper()
	var declaration, key string
	for text := range strings.Lines(printed) {
		text = strings.TrimRight(text, "\n")
		line := strings.TrimSpace(text)
		descriptor, isDescriptor := strings.CutPrefix(line, "descriptor: ")
		switch {
		case strings.HasPrefix(text, "  ") && !strings.HasPrefix(text, "   "):
			declaration = line
		case isDescriptor && strings.HasPrefix(descriptor, "("):
			key = class + "." + methodName(declaration, class) + descriptor
			methods[key] = listed{static: strings.Contains(" "+declaration, " static "), calls: make(map[int]string)}
		case isDescriptor:
			key = ""
		case strings.HasPrefix(line, "line ") && key != "":
			m := methods[key]
			m.lines = append(m.lines, strings.TrimPrefix(line, "line "))
			slices.Sort(m.lines)
			methods[key] = m
		case strings.Contains(line, ": invoke") && !strings.Contains(line, "InvokeDynamic"):
			index, rest, _ := strings.Cut(line, ":")
			_, callee, _ := strings.Cut(rest, "Method ")
			methods[key].calls[number(t, index)] = calleeName(callee, class)
		}
	}
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// methodName returns the name in a declaration such as "public int size();".
func methodName(declaration, class string) string {
	if strings.HasPrefix(declaration, "static {}") {
		return "<clinit>"
	}
	before, _, _ := strings.Cut(declaration, "(")
	name := before[strings.LastIndexByte(before, ' ')+1:]
	if name == class {
		return "<init>"
	}
	return name
}

// arrays turns the names of the arrays that the classes call into Java's form.
var arrays = strings.NewReplacer("[B", "byte[]", "[C", "char[]", "[L", "", ";", "[]")

// calleeName returns a callee of javap's, such as java/util/Map.get:(I)V or "<init>":()V,
// with dots and a class.
func calleeName(callee, class string) string {
	name, descriptor, _ := strings.Cut(callee, ":")
	name = strings.ReplaceAll(strings.ReplaceAll(name, `"`, ""), "/", ".")
	if dot := strings.LastIndexByte(name, '.'); dot < 0 {
		name = class + "." + name
	} else if strings.HasPrefix(name, "[") {
		name = arrays.Replace(name)
	}
	return name + descriptor
}

func TestUnusualNames(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			j := jdk.Start(t, nil, "Names")
			table := open(t, j)
			got := all(t, table, func(c *classes.Class) bool { return strings.HasPrefix(c.Name, "Names") })
			for _, name := range []string{"Names$Größe.tiefe", "Names$\U0001D4B3y.m", "Names$$Lambda.run", "Names.lambda$main$0"} {
				if len(got[name]) == 0 {
					t.Errorf("there is no %s", name)
				} else if got[name][0].Map().File != "Names.java" {
					t.Errorf("%s is of %s, want Names.java", name, got[name][0].Map().File)
				}
			}
			var loaders []string
			for _, m := range got["Names$Plugin.run"] {
				loaders = append(loaders, m.Class.Loader)
			}
			if slices.Sort(loaders); !slices.Equal(loaders, []string{"Names$Own", "plugin-7"}) {
				t.Errorf("the plugin is of loaders %q", loaders)
			}
			checkOdd(t, got)
			checkFind(t, table, got)
			checkUnload(t, table, j, got["Names$Plugin.run"])
		})
	}
}

// checkOdd looks for the class of the longest name, which no source file can have.
func checkOdd(t *testing.T, got map[string][]*classes.Method) {
	t.Helper()
	found := 0
	for name, methods := range got {
		if !strings.HasPrefix(name, "Names\n") {
			continue
		}
		found++
		const begin = "Names\n\x00\xed\xa0\x80 <b>$$Lambda" // half a character stays as the JVM has it
		if m := methods[0]; !strings.HasPrefix(name, begin) || len(name) < 60000 || !strings.HasSuffix(name, "oddodd.m") || m.Descriptor != "()V" || len(m.Lines) > 0 {
			t.Errorf("a name of %d bytes: %q…, %s, lines %v", len(name), name[:min(len(name), 100)], m.Descriptor, m.Lines)
		}
	}
	if found != 1 {
		t.Errorf("%d classes of a name of 64 KB", found)
	}
}

// checkFind looks up what calls of a method reach: a method of the superclass, and a default
// method of the interface.
func checkFind(t *testing.T, table *classes.Table, got map[string][]*classes.Method) {
	t.Helper()
	speak, derived := got["Names.speak"][0], got["Names$Derived.<init>"][0].Class
	var reached []string
	for i := range speak.CodeSize {
		if c, ok := table.Callee(speak, i); ok {
			if m := table.Find(derived, c); m != nil {
				reached = append(reached, m.FullName())
			}
		}
	}
	if want := []string{"Names$Base.base", "Names$Speaks.word"}; !slices.Equal(reached, want) {
		t.Errorf("the calls reach %q, want %q", reached, want)
	}
}

// checkUnload drops loaders, and expects that the table forgets their methods.
func checkUnload(t *testing.T, table *classes.Table, j *jvmtest.JVM, plugins []*classes.Method) {
	t.Helper()
	j.Tell(t, "drop")
	if !j.Out.Scan() || j.Out.Text() != "done" {
		t.Fatalf("the program says %q", j.Out.Text())
	}
	kept, err := table.Method(plugins[0].Address)
	if err != nil || kept != plugins[0] {
		t.Errorf("before a refresh, the method is %v, %v", kept, err)
	}
	table.Refresh()
	for _, p := range plugins {
		if m, err := table.Method(p.Address); err == nil && m == p {
			t.Errorf("%s of loader %q outlived its class", p.FullName(), p.Class.Loader)
		}
	}
	names, err := table.Method(all(t, table, func(c *classes.Class) bool { return c.Name == "Names" })["Names.main"][0].Address)
	if err != nil || names.FullName() != "Names.main" {
		t.Errorf("after a refresh, main is %v, %v", names, err)
	}
}

// TestNotAMethod asks for addresses that are none, while the JVM runs.
func TestNotAMethod(t *testing.T) {
	jdk := jvmtest.JDKs(t)[0]
	j := jdk.Start(t, nil, "Names")
	table := open(t, j)
	f, err := os.Open(fmt.Sprintf("/proc/%d/maps", j.PID))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var addrs []uint64
	for lines := bufio.NewScanner(f); lines.Scan(); {
		begin, _, _ := strings.Cut(lines.Text(), "-")
		addr, err := strconv.ParseUint(begin, 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		addrs = append(addrs, addr, addr+8, addr+4096, addr+1)
	}
	for _, addr := range append(addrs, 0, 8, 4095, 1<<63, ^uint64(0), ^uint64(7)) {
		if m, err := table.Method(addr); err == nil {
			t.Errorf("%#x is taken for %s", addr, m.FullName())
		}
	}
}

func BenchmarkMethod(b *testing.B) {
	for _, jdk := range jvmtest.JDKs(b) {
		table := open(b, jdk.Start(b, nil, "Names"))
		var methods []uint64
		if err := table.Walk(func(c *classes.Class) bool {
			for _, h := range table.Headers(nil, c) {
				methods = append(methods, h.Method)
			}
			return true
		}); err != nil {
			b.Fatal(err)
		}
		b.Run("jdk="+jdk.Name, func(b *testing.B) {
			i := 0
			for b.Loop() {
				if i%len(methods) == 0 {
					table.Forget()
				}
				if _, err := table.Method(methods[i%len(methods)]); err != nil {
					b.Fatal(err)
				}
				i++
			}
		})
	}
}
