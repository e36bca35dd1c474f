package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// covered is a program that was built with -cover and run, and what it counted by
// itself: internal/gocover/testdata/counted, whose comments name its lines.
type covered struct {
	source string // its directory
	dir    string // GOCOVERDIR
	truth  map[string]int64
}

func runCovered(t *testing.T, mode string) covered {
	t.Helper()
	source, err := filepath.Abs("internal/gocover/testdata/counted")
	if err != nil {
		t.Fatal(err)
	}
	c := covered{source: source, dir: t.TempDir()}
	binary := filepath.Join(t.TempDir(), "counted")
	build := exec.Command("go", "build", "-cover", "-covermode="+mode, "-o", binary, ".")
	build.Dir = source
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.Command(binary, "3")
	run.Env = append(os.Environ(), "GOCOVERDIR="+c.dir)
	out, err := run.Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &c.truth); err != nil {
		t.Fatal(err)
	}
	return c
}

// line returns the number of the line that a comment of the program names.
func (c covered) line(t *testing.T, file, comment string) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(c.source, file))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	i := slices.IndexFunc(lines, func(s string) bool { return strings.HasSuffix(s, comment) })
	if i < 0 {
		t.Fatalf("no %q in %s", comment, file)
	}
	return i + 1
}

// profile writes a profile with some of the program's methods in it, as sampling
// finds them.
func (c covered) profile(t *testing.T, methods ...ccmap.Method) string {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	for i, method := range methods {
		frame := ccmap.Frame{Method: m.Names().Intern(method), Offset: 1}
		m.Fold(&ccmap.Sample{Thread: uint64(i), Weight: 1e7, Frames: []ccmap.Frame{frame}})
	}
	path := filepath.Join(t.TempDir(), "in.json")
	if err := export.WriteFile(path, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return path
}

// classify is a method of the program as its symbol table describes it.
func (c covered) classify(t *testing.T) ccmap.Method {
	start := c.line(t, "work.go", "func classify(n int) int {")
	return ccmap.Method{Name: "main.classify", File: filepath.Join(c.source, "work.go"), StartLine: int32(start)}
}

// coveredPoint is what the test reads of 'points --json'.
type coveredPoint struct {
	Method, File, Kind, Origin string
	Line                       int
	Count                      int64
	Values                     []struct {
		Value string
		Count int64
	}
	Others int64
}

func readPoints(t *testing.T, args ...string) []coveredPoint {
	t.Helper()
	r := runEngines(t, nil, append([]string{"points", "--json", "-n", "0", "--sort", "name"}, args...)...)
	if r.code != exitOK {
		t.Fatalf("points exits with %d: %s", r.code, r.stderr)
	}
	var out struct{ Points []coveredPoint }
	if err := json.Unmarshal([]byte(r.stdout), &out); err != nil {
		t.Fatal(err)
	}
	return out.Points
}

// importInto converts a profile with coverage, and returns the path of the result and
// what convert says.
func (c covered) importInto(t *testing.T, in, format string, flags ...string) (path, report string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "out"+format)
	args := append([]string{"convert", "--coverage", c.dir}, flags...)
	r := runEngines(t, nil, append(args, in, path)...)
	if r.code != exitOK || r.stdout != "" {
		t.Fatalf("convert exits with %d: %q, %q", r.code, r.stdout, r.stderr)
	}
	return path, r.stderr
}

// TestCoverageIsTrue: what convert imports, and points lists, are exactly the counts
// that the program prints. The profile says where the sources are.
func TestCoverageIsTrue(t *testing.T) {
	t.Parallel()
	c := runCovered(t, "atomic")
	in := c.profile(t, c.classify(t))
	r := runEngines(t, nil, "convert", "--coverage", c.dir, "--max-read-memory", "1KiB", in, filepath.Join(t.TempDir(), "out.json"))
	if r.code != exitFailed || !strings.Contains(r.stderr, "coverage meta-data: too much memory") || !strings.Contains(r.stderr, "--max-read-memory") {
		t.Errorf("in a kilobyte: exit code %d, %s", r.code, r.stderr)
	}
	for _, format := range []string{".json", ".xml.gz"} {
		path, _ := c.importInto(t, in, format)
		got := c.named(t, readPoints(t, path))
		for what, n := range c.truth {
			kind, _, _ := strings.Cut(what, " ")
			if want := kind == "call" || kind == "taken" || kind == "untaken" || kind == "case"; want && got[what] != n {
				t.Errorf("%s: %s counted %d, the program %d", format, what, got[what], n)
			}
		}
		if n := got["none open"]; n != c.truth["none open"] {
			t.Errorf("%s: no case %d times, want %d", format, n, c.truth["none open"])
		}
	}
}

// named gives points the names that the comments of the program give to their lines.
func (c covered) named(t *testing.T, points []coveredPoint) map[string]int64 {
	got := make(map[string]int64)
	for _, p := range points {
		if p.Origin != "imported" || !strings.HasPrefix(p.File, c.source) {
			t.Errorf("%s is %s, in %s", p.Method, p.Origin, p.File)
		}
		name := c.comment(t, p.File, p.Line)
		switch p.Kind {
		case "block": // the first one comes first
			if _, known := got["call "+p.Method]; !known {
				got["call "+p.Method] = p.Count
			}
		case "branch":
			for _, v := range p.Values {
				got[v.Value+strings.TrimPrefix(name, "branch")] = v.Count
			}
		case "switch":
			got["none"+strings.TrimPrefix(name, "switch")] = p.Others
			for _, v := range p.Values {
				line, _ := strconv.Atoi(v.Value)
				got[c.comment(t, p.File, line)] = v.Count
			}
		}
	}
	return got
}

// comment returns the comment at the end of a line, "" where there is none.
func (c covered) comment(t *testing.T, file string, line int) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, comment, _ := strings.Cut(strings.Split(string(text), "\n")[line-1], " // ")
	return comment
}

// TestCoverageWithoutSource: what remains are blocks, and convert says what to do.
func TestCoverageWithoutSource(t *testing.T) {
	t.Parallel()
	c := runCovered(t, "count")
	nowhere := c.classify(t)
	nowhere.File = "/nowhere/work.go"
	in := c.profile(t, nowhere)
	path, report := c.importInto(t, in, ".json")
	if !strings.Contains(report, "--source DIR") {
		t.Errorf("convert does not say what to do: %s", report)
	}
	var calls int64
	for _, p := range readPoints(t, path) {
		if p.Kind != "block" {
			t.Errorf("%s has a %s", p.Method, p.Kind)
		}
		if p.Method == "main.classify" && p.Line == int(nowhere.StartLine) {
			calls = p.Count
		}
	}
	if want := c.truth["call main.classify"]; calls != want {
		t.Errorf("%d calls of classify, want %d", calls, want)
	}
	path, report = c.importInto(t, in, ".json", "--source", c.source)
	if len(readPoints(t, "--kind", "branch", path, "main.classify")) == 0 || strings.Contains(report, "--source") {
		t.Errorf("no branches with --source: %s", report)
	}
}

// TestCoverageInModeSet: whether, not how often.
func TestCoverageInModeSet(t *testing.T) {
	t.Parallel()
	c := runCovered(t, "set")
	path, report := c.importInto(t, c.profile(t, c.classify(t)), ".json")
	if !strings.Contains(report, "mode set, 1 means executed") {
		t.Errorf("convert says %q", report)
	}
	for _, p := range readPoints(t, path) {
		if p.Kind != "block" || p.Count > 1 {
			t.Errorf("%s has a %s that counts %d", p.Method, p.Kind, p.Count)
		}
	}
}

// TestCoverageOfAnother: a method of the same name in another file or on another line
// is another one.
func TestCoverageOfAnother(t *testing.T) {
	t.Parallel()
	c := runCovered(t, "count")
	moved, other := c.classify(t), c.classify(t)
	moved.StartLine++
	other.Name, other.File = "main.kind", "/src/other/kind.go"
	path, report := c.importInto(t, c.profile(t, moved, other), ".json")
	if !strings.Contains(report, "left out 2 functions") || !strings.Contains(report, "main.kind, main.classify") {
		t.Errorf("convert says %q", report)
	}
	for _, p := range readPoints(t, path) {
		if p.Method == "main.classify" || p.Method == "main.kind" {
			t.Errorf("%s has points", p.Method)
		}
	}
}

// TestCoverageAddsUp: importing twice counts twice, as several directories do.
func TestCoverageAddsUp(t *testing.T) {
	t.Parallel()
	c := runCovered(t, "count")
	in := c.profile(t, c.classify(t))
	once, _ := c.importInto(t, in, ".json")
	twice, _ := c.importInto(t, in, ".json", "--coverage", c.dir)
	again, _ := c.importInto(t, once, ".json")
	want := readPoints(t, once)
	for i := range want {
		want[i].Count *= 2
		want[i].Others *= 2
		for j := range want[i].Values {
			want[i].Values[j].Count *= 2
		}
	}
	if diff := cmp.Diff(want, readPoints(t, twice)); diff != "" {
		t.Errorf("a directory given twice (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(readPoints(t, twice), readPoints(t, again)); diff != "" {
		t.Errorf("imported twice (-one command +two):\n%s", diff)
	}
}

func TestCoverageRefusals(t *testing.T) {
	t.Parallel()
	empty := t.TempDir()
	for _, test := range []struct {
		line string
		code int
		want string
	}{
		{"convert --coverage DIR in.json out.pb.gz", exitUsage, "pprof has no place"},
		{"convert --coverage DIR --to folded in.json -", exitUsage, "folded has no place"},
		{"convert --coverage DIR --recent in.json out.xml", exitUsage, "exclude each other"},
		{"convert --source DIR in.json out.xml", exitUsage, "--coverage"},
		{"convert --coverage DIR in.json out.xml", exitFailed, "go build -cover"},
		{"convert --coverage DIR/none in.json out.xml", exitFailed, "no such file"},
	} {
		r := runEngines(t, nil, strings.Fields(strings.ReplaceAll(test.line, "DIR", empty))...)
		if r.code != test.code || !strings.Contains(r.stderr, test.want) {
			t.Errorf("%s: exit code %d, %q; want %d, %q", test.line, r.code, r.stderr, test.code, test.want)
		}
	}
}
