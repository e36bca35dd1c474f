package jfr

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// javaHomes finds the JDKs that the tests record and print with.
func javaHomes(t *testing.T) []string {
	t.Helper()
	testrun.Full(t, testrun.JDK)
	var homes []string
	for _, pattern := range []string{"/usr/lib/jvm/*17*", "/usr/lib/jvm/*25*"} {
		found, _ := filepath.Glob(pattern + "/bin/jfr")
		if len(found) == 0 {
			t.Logf("there is no JDK like %s", pattern)
			continue
		}
		homes = append(homes, filepath.Dir(filepath.Dir(found[0])))
	}
	if len(homes) == 0 {
		testrun.Lacks(t, "no JDK is installed: install openjdk-17-jdk-headless")
	}
	return homes
}

func TestMain(m *testing.M) { jvmtest.Main(m) }

// recordWork runs a program that works for less than a second, and records it.
func recordWork(t *testing.T, home string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "app.jfr")
	run := func(settings string) ([]byte, error) {
		return exec.Command(filepath.Join(home, "bin/java"), "-XX:StartFlightRecording=settings=profile,"+settings+"filename="+file,
			"-cp", jvmtest.Classes(t), "Recorded").CombinedOutput()
	}
	out, err := run("jdk.CPUTimeSample#enabled=true,")
	if err != nil && strings.Contains(string(out), "jdk.CPUTimeSample") { // JDK 17 knows no such event
		out, err = run("")
	}
	if err != nil {
		t.Fatalf("record: %v\n%s", err, out)
	}
	return file
}

// forAllChunks calls a function with each chunk of a file.
func forAllChunks(t *testing.T, file string, do func(*Chunk)) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := NewReader(bufio.NewReader(f), nil)
	for {
		c, err := r.Next()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(c)
		if c.Corrupt() != 0 {
			t.Errorf("%d corrupt values", c.Corrupt())
		}
	}
}

// The JDK's own reader finds the same events, and the same fields in those with stacks.
func TestAgainstJDK(t *testing.T) {
	t.Parallel()
	for _, home := range javaHomes(t) {
		t.Run(filepath.Base(home), func(t *testing.T) {
			t.Parallel()
			file := recordWork(t, home)
			checkSummary(t, home, file)
			checkPrinted(t, home, file)
		})
	}
}

var summaryLine = regexp.MustCompile(`(?m)^ *([A-Za-z0-9_.$]+) +([0-9]+) +[0-9]+ *$`)

// checkSummary compares the number of events of each type.
func checkSummary(t *testing.T, home, file string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(home, "bin/jfr"), "summary", file).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := make(map[string]int)
	for _, m := range summaryLine.FindAllStringSubmatch(string(out), -1) {
		if n, _ := strconv.Atoi(m[2]); n > 0 && m[1] != "jdk.Metadata" && m[1] != "jdk.Checkpoint" && m[1] != "jdk.CheckPoint" {
			want[m[1]] = n
		}
	}
	got := make(map[string]int)
	forAllChunks(t, file, func(c *Chunk) {
		for e := range c.Events() {
			got[e.Type().Name]++
		}
	})
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 20 {
		t.Errorf("events of %d types (-jfr summary +got):\n%s", len(want), diff)
	}
}

// printed is an event as 'jfr print --json' has it.
type printed struct {
	Type   string
	Values struct {
		Thread *struct{ OSThreadID int64 } `json:"sampledThread"`
		Stack  *printedStack               `json:"stackTrace"`
		Weight int64
		Class  *struct{ Name string } `json:"objectClass"`
	}
}

type printedStack struct {
	Truncated bool
	Frames    []struct {
		Method struct {
			Type       struct{ Name string }
			Name       string
			Descriptor string
			Modifiers  int64
		}
		LineNumber, BytecodeIndex int32
		Type                      string
	}
}

// sampleEvents are the events whose fields are compared.
var sampleEvents = []string{"jdk.ExecutionSample", "jdk.CPUTimeSample", "jdk.NativeMethodSample", "jdk.ObjectAllocationSample", "jdk.JavaMonitorEnter", "jdk.ThreadPark"}

// checkPrinted compares events as texts, in any order.
func checkPrinted(t *testing.T, home, file string) {
	t.Helper()
	out, err := exec.Command(filepath.Join(home, "bin/jfr"), "print", "--json", "--stack-depth", "2048",
		"--events", strings.Join(sampleEvents, ","), file).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Recording struct{ Events []printed } }
	if err := json.Unmarshal(out, &all); err != nil {
		t.Fatal(err)
	}
	var want, got []string
	for _, e := range all.Recording.Events {
		want = append(want, describePrinted(e))
	}
	forAllChunks(t, file, func(c *Chunk) {
		for e := range c.Events() {
			if slices.Contains(sampleEvents, e.Type().Name) {
				got = append(got, describe(e))
			}
		}
	})
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("%d events (-jfr print +got):\n%.4000s", len(want), diff)
	}
}

func describePrinted(e printed) string {
	var b strings.Builder
	b.WriteString(e.Type)
	if e.Values.Thread != nil {
		b.WriteString(" thread " + strconv.FormatInt(e.Values.Thread.OSThreadID, 10))
	}
	b.WriteString(" weight " + strconv.FormatInt(e.Values.Weight, 10))
	if e.Values.Class != nil {
		b.WriteString(" of " + e.Values.Class.Name)
	}
	if s := e.Values.Stack; s != nil {
		b.WriteString(" " + strconv.FormatBool(s.Truncated))
		for _, f := range s.Frames {
			b.WriteString(describeFrame(f.Method.Type.Name, f.Method.Name, f.Method.Descriptor, f.Type, f.Method.Modifiers, f.LineNumber, f.BytecodeIndex))
		}
	}
	return b.String()
}

func describeFrame(class, name, descriptor, kind string, modifiers int64, line, bytecode int32) string {
	class = strings.ReplaceAll(class, "/", ".") // the JDK's printers differ in that
	return "\n\t" + strings.Join([]string{
		class, name, descriptor, kind, strconv.FormatInt(modifiers, 10), strconv.Itoa(int(line)), strconv.Itoa(int(bytecode)),
	}, " ")
}

func describe(e Object) string {
	var b strings.Builder
	b.WriteString(e.Type().Name)
	if thread := e.Get("sampledThread"); !thread.IsZero() {
		b.WriteString(" thread " + strconv.FormatInt(thread.Int("osThreadId"), 10))
	}
	b.WriteString(" weight " + strconv.FormatInt(e.Int("weight"), 10))
	if class := e.Get("objectClass"); !class.IsZero() {
		b.WriteString(" of " + class.Text("name"))
	}
	if trace := e.Get("stackTrace"); !trace.IsZero() {
		b.WriteString(" " + strconv.FormatBool(trace.Bool("truncated")))
		for f := range trace.List("frames") {
			m := f.Get("method")
			b.WriteString(describeFrame(m.Get("type").Text("name"), m.Text("name"), m.Text("descriptor"), f.Text("type"),
				m.Int("modifiers"), int32(f.Int("lineNumber")), int32(f.Int("bytecodeIndex"))))
		}
	}
	return b.String()
}
