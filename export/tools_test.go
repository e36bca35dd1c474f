package export

import (
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// workload is a profile of testdata/workload: main calls mix at its line 3.
func workload() *ccmap.Map {
	const file = "testdata/workload/main.go"
	return build([]ccmap.Method{
		{Name: "runtime.main", File: "proc.go", StartLine: 147},
		{Name: "main.main", File: file, StartLine: 26},
		{Name: "main.mix", File: file, StartLine: 6},
	}, []line{{
		Stack: []ccmap.Frame{{Method: 0, Offset: 136}, {Method: 1, Offset: 3}, {Method: 2, Offset: 7}},
		Count: ccmap.Counters{Samples: 100, Time: 1e9},
	}})
}

// goTool runs the go command, or one of its tools.
func goTool(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	if args[0] == "tool" {
		cmd = exec.Command(programtest.GoTool(t, args[1]), args[2:]...)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

func writeTemp(t *testing.T, name string, m *ccmap.Map) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := WriteFile(path, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestGoToolPprofTop(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	t.Parallel()
	for _, name := range []string{"demo.pb.gz", "demo.pb"} {
		got := goTool(t, "tool", "pprof", "-top", writeTemp(t, name, small()))
		for _, want := range []string{
			`Type: cpu`,
			`Duration: 10s, Total samples = 95ms`,
			`(?m)^ +50ms 52\.63% .* main\.Sum\[struct { X int; Y int }\]$`,
			`(?m)^ +10ms 10\.53% .* 50ms 52\.63% +main\.\(\*Tree\)\.Walk$`,
		} {
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%s: no %s in\n%s", name, want, got)
			}
		}
	}
}

// Points add views of their own, and change nothing of CPU time.
func TestGoToolPprofHits(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	t.Parallel()
	with, without := writeTemp(t, "demo.pb", points()), writeTemp(t, "demo.pb", small())
	if diff := cmp.Diff(goTool(t, "tool", "pprof", "-top", without), goTool(t, "tool", "pprof", "-top", with)); diff != "" {
		t.Errorf("CPU time (-without points +with points):\n%s", diff)
	}
	for _, test := range []struct {
		args []string
		want []string
	}{
		{[]string{"-tags"}, []string{`(?m)^ receiver: Total 10ms of 95ms`, `(?m)^ +10ms \(10\.53%\): \*main\.Tree$`}},
		{[]string{"-top", "-tagfocus=receiver=Tree"}, []string{`(?m)^ +10ms .* main\.\(\*Tree\)\.Walk$`, `accounting for 10ms,`}},
		{[]string{"-sample_index=receiver_hits", "-tags"}, []string{`(?m)^ +75 \(64\.66%\): main\.Leaf$`, `(?m)^ +25 \(21\.55%\): \*main\.Named$`}},
		{[]string{"-sample_index=receiver_hits", "-peek=Walk"}, []string{`(?m)^ +103 .* main\.main$`, `(?m)^ +75 .* main\.Leaf\.Size$`, `(?m)^ +25 .* main\.\(\*Named\)\.Size$`}},
		{[]string{"-sample_index=receiver_hits", "-traces", "-lines"}, []string{`main\.\(\*Tree\)\.Walk /src/tree\.go:47`}},
		{[]string{"-sample_index=site_hits", "-top"}, []string{`Total samples = 116`, `(?m)^ +25 .* main\.\(\*Named\)\.Size$`}},
	} {
		got := goTool(t, append(append([]string{"tool", "pprof"}, test.args...), with)...)
		for _, want := range test.want {
			if !regexp.MustCompile(want).MatchString(got) {
				t.Errorf("%v: no %s in\n%s", test.args, want, got)
			}
		}
	}
}

// What pprof itself writes of our profile is the same map.
func TestGoToolPprofProto(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool pprof")
	}
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.pb.gz")
	goTool(t, "tool", "pprof", "-proto", "-output="+out, writeTemp(t, "demo.pb", points()))
	m, _, err := ReadFile(out, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if want, got := encode(t, Folded, small().Snapshot()), encode(t, Folded, m.Snapshot()); want != got {
		t.Errorf("want\n%s\ngot\n%s", want, got)
	}
	if diff := cmp.Diff(withoutNulls(pointsOf(points().Snapshot(), Pprof)), withoutNulls(pointsOf(m.Snapshot(), XML))); diff != "" {
		t.Errorf("points (-want +got):\n%s", diff)
	}
}

// The compiler finds the hot call by its line, and inlines what it would not have. This runs what go build
// -pgo runs for the package of the program alone: with a profile, go build compiles the runtime anew.
func TestPGOInlinesHotCall(t *testing.T) {
	if testing.Short() {
		t.Skip("runs the compiler")
	}
	t.Parallel()
	const inlined = "inlining call to mix"
	compile := func(more ...string) string {
		args := []string{"tool", "compile", "-p", "main", "-m", "-o", filepath.Join(t.TempDir(), "workload.a")}
		return goTool(t, append(append(args, more...), "testdata/workload/main.go")...)
	}
	if without := compile(); strings.Contains(without, inlined) {
		t.Fatalf("mix is inlined without a profile:\n%s", without)
	}
	profiled := workload()
	mix, _ := profiled.Names().Lookup("main.mix", "")
	profiled.AddPoint(ccmap.Point{Origin: ccmap.OriginBurst, Method: ccmap.FirstID + 1, Offset: 3, Values: []ccmap.PointValue{{Value: uint64(mix), Count: 5}}})
	if with := compile("-pgoprofile=" + preprocessed(t, writeTemp(t, "demo.pb.gz", profiled))); !strings.Contains(with, inlined) {
		t.Errorf("mix is not inlined with a profile:\n%s", with)
	}
}
