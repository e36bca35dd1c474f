package methoddata

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// TestMain removes the Java programs that the tests have compiled.
func TestMain(m *testing.M) { jvmtest.Main(m) }

// open returns a reader of a JVM of a test.
func open(t testing.TB, j *jvmtest.JVM) *Reader {
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
	r, err := New(vm, table)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// counted are the points of the program's methods, by method and kind. Each method has at
// most one of a kind.
type counted struct {
	names  *ccmap.Names
	points map[string]ccmap.Point
}

func read(t *testing.T, r *Reader) counted {
	t.Helper()
	if err := r.Snapshot(); err != nil {
		t.Fatal(err)
	}
	m := ccmap.New(ccmap.Options{})
	m.SetPoints(ccmap.OriginVM, r.Points(m.Names()))
	s := m.Snapshot()
	if err := s.CheckValid(); err != nil {
		t.Fatal(err)
	}
	c := counted{m.Names(), make(map[string]ccmap.Point)}
	for _, p := range s.Points() {
		if name, ok := strings.CutPrefix(m.Names().At(p.Method).Name, "Counts."); ok {
			c.points[name+" "+p.Kind.String()] = p
		}
	}
	return c
}

// shares returns the values of a point, with their shares in hundredths, the largest
// first.
func (c counted) shares(t *testing.T, name string) string {
	t.Helper()
	p, ok := c.points[name]
	if !ok || p.Count < 1000 {
		t.Errorf("point %s counts %d", name, p.Count)
		return ""
	}
	percent := func(n int64) string { return strconv.Itoa(int(math.Round(100 * float64(n) / float64(p.Count)))) }
	var words []string
	for _, v := range p.Values {
		value := strconv.Itoa(int(v.Value))
		switch {
		case p.Kind.HasMethods():
			value = strings.TrimPrefix(c.names.At(ccmap.MethodID(v.Value)).Name, "Counts$")
		case p.Kind == ccmap.PointSwitch:
			value = "line " + strconv.Itoa(int(c.names.Line(ccmap.Frame{Method: p.Method, Offset: uint32(v.Value)})-c.names.Line(ccmap.Frame{Method: p.Method, Offset: p.Offset})))
		}
		words = append(words, value+" "+percent(v.Count))
	}
	slices.Sort(words)
	if p.Other > 0 {
		words = append(words, "other "+percent(p.Other))
	}
	return strings.Join(words, ", ")
}

// TestCounts compares the shares of calls, types, branches and switches with the
// program's. The second compiler is off, so that nothing freezes, and the program waits for the
// first one: on a busy machine it might end before its code counts.
func TestCounts(t *testing.T) {
	five := "Bow.area 20, Circle.area 20, Dot.area 20, Line.area 20, Square.area 20"
	for _, jdk := range jvmtest.JDKs(t) {
		for width, want := range map[string]map[string]string{
			"2": {
				"two call": "Circle.area 25, Square.area 75", "nulls type": "Square 100",
				"branch branch": "0 25, 1 75", "dense switch": "line 0 25, line 0 25, other 50",
			},
			"0": {"two call": "other 100", "five call": "other 100"},
			"4": {"two call": "Circle.area 25, Square.area 75"},
			"8": {"five call": five},
		} {
			for _, flags := range [][]string{nil, {"-XX:-UseCompressedClassPointers", "-XX:+UseSerialGC"}} {
				if flags != nil && width != "2" || testing.Short() && (flags != nil || width != "2") { // one goroutine reads them all
					continue
				}
				t.Run(jdk.Name+" width "+width+strings.Join(flags, ""), func(t *testing.T) {
					flags := append([]string{"-Xbatch", "-XX:TieredStopAtLevel=3", "-XX:TypeProfileWidth=" + width}, flags...)
					j := jdk.Start(t, flags, "Counts", "60")
					r := open(t, j)
					c := read(t, r)
					for name, shares := range want {
						if got := c.shares(t, name); got != shares {
							t.Errorf("%s: %s, want %s", name, got, shares)
						}
					}
					if jdk.Name != "17" && width == "2" { // 17 counts failed checks, and not their types
						if got, want := c.shares(t, "whole type"), "Circle 25, Square 75"; got != want {
							t.Errorf("a check that fails for 1 of 4: %s, want %s", got, want)
						}
					}
					c.checkFacts(t, width)
					checkFollow(t, r, j)
				})
			}
		}
	}
}

func (c counted) checkFacts(t *testing.T, width string) {
	t.Helper()
	if n := c.points["two call"].Count; n > 60*2000 {
		t.Errorf("%d calls were counted, of %d", n, 60*2000)
	}
	if c.points["two call"].Frozen {
		t.Error("counts of the first compiler's code are frozen")
	}
	if width == "0" {
		return
	}
	if got, other := c.points["nulls type"].Nulls, c.points["whole type"].Nulls; got != ccmap.NullsSeen || other != 0 {
		t.Errorf("nulls are %d where there are some, and %d where there are none", got, other)
	}
}

// checkFollow: what a program does until Follow is to end is in the last points.
func checkFollow(t *testing.T, r *Reader, j *jvmtest.JVM) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var sums []int64 // of the counts that were published
	hot := func() []uint64 { return slices.Collect(maps.Keys(r.profiles)) }
	r.changed = true
	err := r.Follow(ctx, ccmap.NewNames(), hot, func(points []ccmap.Point) {
		var sum int64
		for _, p := range points {
			sum += p.Count
		}
		if sums = append(sums, sum); len(sums) > 1 {
			return
		}
		j.Tell(t, "go")
		for j.Out.Scan() && !strings.HasPrefix(j.Out.Text(), "done") {
		}
		cancel()
	})
	if err != nil || len(sums) != 2 || sums[1] <= sums[0] {
		t.Errorf("the program ran between the counts %d, %v", sums, err)
	}
}

// TestNoProfiles reads a JVM that only interprets, and so keeps no profiles.
func TestNoProfiles(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		r := open(t, jdk.Start(t, []string{"-Xint"}, "Counts", "1"))
		if err := r.Snapshot(); !errors.Is(err, ErrFew) {
			t.Errorf("JDK %s: %v, want %v", jdk.Name, err, ErrFew)
		}
		if got := r.Points(ccmap.NewNames()); len(got) > 0 {
			t.Errorf("JDK %s: %d points", jdk.Name, len(got))
		}
	}
}

// replayed is what the JVM itself writes of a method's profile.
type replayed struct {
	words   []uint64
	classes map[int]string // by the word
}

// atLeisure lets methods of few calls wait for the second compiler for as long as they must, in
// the order of their numbers.
var atLeisure = []string{
	"-XX:+UnlockDiagnosticVMOptions", "-XX:+IgnoreUnrecognizedVMOptions", "-XX:CICompilerCount=2", "-XX:-UseDynamicNumberOfCompilerThreads",
	"-XX:Tier4InvocationThreshold=1000", "-XX:Tier4MinInvocationThreshold=200", "-XX:Tier4CompileThreshold=2000",
	"-XX:Tier4LoadFeedback=1000000", "-XX:Tier3DelayOn=1000000", "-XX:TieredCompileTaskTimeout=100000000",
	"-XX:CompileCommand=quiet", "-XX:CompileCommand=DumpReplay,java.*::*", "-XX:CompileCommand=DumpReplay,Counts.*",
}

// TestAgainstReplay compares profiles with those that the JVM dumps when its second compiler
// compiles a method. The compiler is kept behind until the program has ended all its calls, so
// what it dumps from then on are the last counts. Frozen methods have them for ever. The JVM's own
// threads call some methods still: one that has counted since is left out.
func TestAgainstReplay(t *testing.T) {
	if testing.Short() {
		t.Skip("the JVM writes many MB of dumps")
	}
	const enough = 100
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			j := jdk.Start(t, atLeisure, "Counts", "0")
			catchUp := behind(t, j.PID, "C2 CompilerThre")
			j.Tell(t, "go")
			for j.Out.Scan() && !strings.HasPrefix(j.Out.Text(), "done") { // the JVM writes of its dumps
			}
			for !reads(t, j.PID) {
				time.Sleep(time.Millisecond)
			}
			r := open(t, j)
			if err := r.Snapshot(); err != nil {
				t.Fatal(err)
			}
			rest := maps.Clone(r.profiles)
			before := dumps(t, j.Dir)
			catchUp()
			same, grown := 0, 0
			for deadline := time.Now().Add(5 * time.Minute); same+grown < enough && time.Now().Before(deadline); {
				time.Sleep(200 * time.Millisecond) // the compiler goes on: each look reads all its dumps
				if err := r.Snapshot(); err != nil && !errors.Is(err, ErrFew) {
					t.Fatal(err)
				}
				same, grown = r.compare(t, rest, replays(t, j.Dir, before))
			}
			t.Logf("%d profiles: %d frozen ones equal the JVM's words, %d do not; %+v", len(r.profiles), same, grown, r.Stats())
			if same < enough || grown > 0 {
				t.Errorf("%d frozen methods are equal and %d are not, want %d and none", same, grown, enough)
			}
		})
	}
}

// reads reports whether a thread of a process waits for its standard input.
func reads(t *testing.T, pid int) bool {
	t.Helper()
	calls, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil || len(calls) == 0 {
		t.Fatalf("%d threads, %v", len(calls), err)
	}
	return slices.ContainsFunc(calls, func(file string) bool {
		text, _ := os.ReadFile(file)
		return strings.HasPrefix(string(text), "0 0x0 ") // read, descriptor 0
	})
}

// behind keeps the thread of a name behind all others of a process, on one CPU: it runs when they
// have nothing to do, until catchUp is called.
func behind(t *testing.T, pid int, name string) (catchUp func()) {
	t.Helper()
	const idle, normal = 5, 0 // policies of linux/sched.h
	var one unix.CPUSet
	if err := unix.SchedGetaffinity(pid, &one); err != nil {
		t.Fatal(err)
	}
	for cpu, more := 0, one.Count()-1; more > 0; cpu++ {
		if one.IsSet(cpu) {
			one.Clear(cpu)
			more--
		}
	}
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
	found := 0
	for _, dir := range threads {
		tid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			t.Fatal(err)
		}
		unix.SchedSetaffinity(tid, &one) // but for threads that have just ended
		if comm, _ := os.ReadFile(filepath.Join(dir, "comm")); strings.TrimSpace(string(comm)) == name {
			found = tid
		}
	}
	policy := func(p uint32) {
		if err := unix.SchedSetAttr(found, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: p}, 0); err != nil {
			t.Fatalf("thread %s: %v", name, err)
		}
	}
	if found == 0 {
		t.Fatalf("no thread is %s", name)
	}
	policy(idle)
	return func() { policy(normal) }
}

// compare returns how many frozen methods that rest have the words that the JVM has dumped, and how many
// have other counts.
func (r *Reader) compare(t *testing.T, rest map[uint64]*profile, want map[string]replayed) (same, grown int) {
	t.Helper()
	for method, p := range r.profiles {
		w, dumped := want[p.method.Class.Name+" "+p.method.Name+" "+p.method.Descriptor]
		if before := rest[method]; !p.frozen || !dumped || before == nil || !bytes.Equal(before.data, p.data) {
			continue
		}
		switch words := differences(t, r, p, w); {
		case words == 0:
			same++
		case words > 0:
			grown++
		}
	}
	return same, grown
}

// differences returns how many counts have grown since the dump, −1 after an error. The JVM
// dumps before it compiles, and the method runs on until its callers return.
func differences(t *testing.T, r *Reader, p *profile, w replayed) int {
	t.Helper()
	grown := 0
	at := 0
	err := r.l.each(p.data, p.method.CodeSize, func(rec *record) error {
		cells := len(rec.cells) / cellSize
		if at+1+cells > len(w.words) {
			return errEnd
		}
		const kind = 1<<8 - 1 | 0xffff<<16 // tag and index
		if got := binary.LittleEndian.Uint64(p.data[cellSize*at:]); (got^w.words[at])&kind != 0 {
			return fmt.Errorf("word %d: %#x, the JVM's %#x", at, got, w.words[at])
		}
		rows := make(map[int]bool)
		for i := range r.l.width {
			if rec.tag == tagType || rec.tag == tagVirtual || rec.tag == tagVirtualCall {
				rows[1+r.l.extra+2*i] = true
			}
		}
		for i := range cells {
			got, want := rec.cell(i), w.words[at+1+i]
			class, isClass := w.classes[at+1+i]
			switch {
			case rows[i]:
				c, err := r.table.Class(got)
				if isClass && (err != nil || !sameClass(c.Name, class)) || !isClass && want != 0 {
					return fmt.Errorf("word %d: class %v, the JVM's %q", at+1+i, c, class)
				}
			case !isClass && got != want:
				grown++
			}
		}
		at += 1 + cells
		return nil
	})
	if err != nil {
		t.Errorf("%s%s: %v", p.method.FullName(), p.method.Descriptor, err)
		return -1
	}
	return grown
}

// sameClass compares a name with the JVM's own, with dots.
func sameClass(name, dumped string) bool {
	if strings.HasPrefix(dumped, "[") {
		return strings.HasSuffix(name, "[]")
	}
	return name == javaname.Class(dumped) || strings.HasPrefix(dumped, "@") // of a hidden class JDK 25 says where it comes from
}

// dumps returns the names of the JVM's dumps.
func dumps(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "replay_pid*_compid*.log"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// replays returns the last profiles in the JVM's dumps that are complete, by class, name and
// descriptor, but for dumps of before.
func replays(t *testing.T, dir string, before []string) map[string]replayed {
	t.Helper()
	files := slices.DeleteFunc(dumps(t, dir), func(name string) bool { return slices.Contains(before, name) })
	slices.SortFunc(files, func(a, b string) int { return written(t, a).Compare(written(t, b)) })
	if len(files) > 0 {
		files = files[1:] // the compiler had begun it before
	}
	all := make(map[string]replayed)
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(text, []byte("\ncompile ")) { // the last line
			continue
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) > 4 && fields[0] == "ciMethodData" {
				all[strings.ReplaceAll(fields[1], "/", ".")+" "+fields[2]+" "+fields[3]] = replay(t, fields)
			}
		}
	}
	return all
}

// written returns when a file was written to last.
func written(t *testing.T, name string) time.Time {
	t.Helper()
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	return info.ModTime()
}

// replay reads a line: "… data N words oops n (word class)… methods …".
func replay(t *testing.T, fields []string) replayed {
	t.Helper()
	after := func(word string) []string { return fields[slices.Index(fields, word)+1:] }
	count := func(list []string) int {
		n, err := strconv.Atoi(list[0])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	w := replayed{classes: make(map[int]string)}
	data, oops := after("data"), after("oops")
	for _, word := range data[1 : 1+count(data)] {
		n, err := strconv.ParseUint(strings.TrimPrefix(word, "0x"), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		w.words = append(w.words, n)
	}
	rest := oops[1:]
	for range count(oops) {
		w.classes[count(rest)] = strings.ReplaceAll(rest[1], "/", ".")
		words := 2
		if strings.HasPrefix(rest[1], "@") {
			words = slices.Index(rest, ";") + 1
		}
		rest = rest[words:]
	}
	return w
}
