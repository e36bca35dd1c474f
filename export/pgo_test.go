package export

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// compilerProfile returns the CPU profile that the Go compiler itself is built with.
func compilerProfile(t *testing.T) string {
	t.Helper()
	root := strings.TrimSpace(goTool(t, "env", "GOROOT"))
	return filepath.Join(root, "src/cmd/compile/default.pgo")
}

// converted reads a profile and writes it again, under a name.
func converted(t *testing.T, path, name string) string {
	t.Helper()
	m, _, err := ReadFile(path, ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return writeTemp(t, name, m)
}

// preprocessed makes of a profile what the compiler reads.
func preprocessed(t *testing.T, path string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), "edges")
	goTool(t, "tool", "preprofile", "-i", path, "-o", out)
	return out
}

// pgoEdges are the calls that the compiler finds in a profile: caller, callee and the
// offset of the line.
func pgoEdges(t *testing.T, path string) []string {
	t.Helper()
	data, err := os.ReadFile(preprocessed(t, path))
	if err != nil {
		t.Fatal(err)
	}
	var edges []string
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")[1:]
	for edge := range slices.Chunk(lines, 3) {
		offset, _, _ := strings.Cut(edge[2], " ")
		edges = append(edges, edge[0]+" "+edge[1]+" "+offset)
	}
	slices.Sort(edges)
	return edges
}

// The compiler finds as many calls in what we make of its own profile as in the profile
// itself: 3,532 of Go 1.26.
func TestConvertKeepsEdgesOfPGO(t *testing.T) {
	if testing.Short() {
		t.Skip("runs go tool preprofile")
	}
	t.Parallel()
	profile := compilerProfile(t)
	want, got := pgoEdges(t, profile), pgoEdges(t, converted(t, profile, "default.pb"))
	if len(want) != len(got) {
		t.Errorf("%d edges, want %d:\n%s", len(got), len(want), cmp.Diff(want, got))
	}
}

// The compiler inlines the same calls in types2 with either profile: 76 of Go 1.26.
func TestConvertKeepsDecisionsOfPGO(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	if testing.Short() {
		t.Skip("compiles a package of the compiler, twice")
	}
	t.Parallel()
	profile := compilerProfile(t)
	want, got := decisions(t, profile), decisions(t, converted(t, profile, "default.pb"))
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("of %d decisions (-its own profile +ours):\n%s", len(want), diff)
	}
}

// decisions returns the calls that the compiler inlines in types2 because a profile
// says that they are hot.
func decisions(t *testing.T, profile string) []string {
	t.Helper()
	const pkg = "cmd/compile/internal/types2"
	dir := t.TempDir()
	imports := filepath.Join(dir, "importcfg")
	list := goTool(t, "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}", pkg)
	if err := os.WriteFile(imports, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	version := strings.Join(strings.SplitN(runtime.Version(), ".", 3)[:2], ".")
	args := []string{
		"tool", "compile", "-o", filepath.Join(dir, "types2.a"), "-p", pkg, "-importcfg", imports, "-complete", "-std",
		"-lang=" + version, "-pgoprofile=" + preprocessed(t, profile), "-d=pgodebug=1",
	}
	files := goTool(t, "list", "-f", `{{$dir := .Dir}}{{range .GoFiles}}{{$dir}}/{{.}} {{end}}`, pkg)
	var inlined []string
	for line := range strings.Lines(goTool(t, append(args, strings.Fields(files)...)...)) {
		if strings.Contains(line, "hot-budget check allows inlining") {
			inlined = append(inlined, line)
		}
	}
	slices.Sort(inlined)
	return inlined
}

// Methods of testdata/shapes, and frames that are no Go functions.
const (
	shapesMain ccmap.MethodID = iota
	shapesTotal
	sqArea
	discArea
	kernelFrame
	cFrame
	truncatedFrame
)

// interfaceCall is the offset of the line in total that calls area.
const interfaceCall = 2

func shapesMethods() []ccmap.Method {
	const file, module = "testdata/shapes/main.go", "go-build-id"
	return []ccmap.Method{
		shapesMain:     {Name: "main.main", File: file, StartLine: 32, Module: module},
		shapesTotal:    {Name: "main.total", File: file, StartLine: 25, Module: module},
		sqArea:         {Name: "main.sq.area", File: file, StartLine: 11, Module: module},
		discArea:       {Name: "main.disc.area", File: file, StartLine: 15, Module: module},
		kernelFrame:    {Name: ccmap.KernelName, Signature: "read"},
		cFrame:         {Name: "qsort", Module: "/lib/libc.so.6"},
		truncatedFrame: {Name: ccmap.TruncatedName},
	}
}

// shapes is a profile of testdata/shapes whose samples below the interface call are of
// these methods.
func shapes(samples map[ccmap.MethodID]int64) *ccmap.Map {
	var lines []line
	for id := range ccmap.MethodID(truncatedFrame) {
		if n := samples[id]; n > 0 {
			lines = append(lines, line{
				[]ccmap.Frame{{Method: shapesMain, Offset: 4}, {Method: shapesTotal, Offset: interfaceCall}, {Method: id, Offset: ccmap.NoOffset}},
				ccmap.Counters{Samples: n, Time: n * 1e7},
			})
		}
	}
	return build(shapesMethods(), lines)
}

// compiledShapes returns what the compiler says of a profile when it compiles
// testdata/shapes.
func compiledShapes(t *testing.T, profile string) string {
	t.Helper()
	dir := t.TempDir()
	imports := filepath.Join(dir, "importcfg")
	list := goTool(t, "list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}", "syscall")
	if err := os.WriteFile(imports, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	return goTool(t, "tool", "compile", "-o", filepath.Join(dir, "shapes.a"), "-p", "main", "-importcfg", imports,
		"-pgoprofile="+preprocessed(t, profile), "-d=pgodebug=2", "-m", "testdata/shapes/main.go")
}

// Time in the kernel must not be the hottest callee of a line: the compiler would take
// it for the target of the interface call there.
func TestPGODevirtualizesBesideKernelTime(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	t.Parallel()
	const done = "PGO devirtualizing interface call s.area to sq.area"
	m := shapes(map[ccmap.MethodID]int64{kernelFrame: 58, sqArea: 41, discArea: 7})
	if out := compiledShapes(t, writeTemp(t, "shapes.pb.gz", m)); strings.Contains(out, done) {
		t.Errorf("the profile for people would do:\n%s", out)
	}
	if out := compiledShapes(t, writeTemp(t, "default.pgo", m)); !strings.Contains(out, done) {
		t.Errorf("the call is not devirtualized:\n%s", out)
	}
}

// Of two callees the compiler takes the one that was called more often, not the one
// that took more time.
func TestPGORanksByCaughtCalls(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program")
	}
	t.Parallel()
	m := shapes(map[ccmap.MethodID]int64{sqArea: 20, discArea: 70, cFrame: 90})
	wrapper := m.Names().Intern(ccmap.Method{Name: "main.(*sq).area", File: "<autogenerated>", StartLine: 1})
	disc, _ := m.Names().Lookup("main.disc.area", "")
	caller, _ := m.Names().Lookup("main.total", "")
	m.AddPoint(ccmap.Point{
		Origin: ccmap.OriginBurst, Method: caller, Offset: interfaceCall, End: interfaceCall, Nulls: ccmap.NullsUnknown,
		Count: 100, Values: []ccmap.PointValue{{Value: uint64(wrapper), Count: 75}, {Value: uint64(disc), Count: 25}},
	})
	out := compiledShapes(t, writeTemp(t, "default.pgo", m))
	if want := "PGO devirtualizing interface call s.area to sq.area"; !strings.Contains(out, want) {
		t.Errorf("no %q in\n%s", want, out)
	}
}

// A sample counts where Go code called what is no Go function, and a stack begins after
// the last such frame. No time is lost but that of stacks without Go.
func TestForPGO(t *testing.T) {
	t.Parallel()
	at := func(method ccmap.MethodID, offset uint32) ccmap.Frame {
		return ccmap.Frame{Method: method, Offset: offset}
	}
	none := ccmap.NoOffset
	one := ccmap.Counters{Samples: 1, Time: 10, Activations: 3}
	m := build(shapesMethods(), []line{
		{[]ccmap.Frame{at(shapesMain, 4), at(shapesTotal, 2), at(kernelFrame, none)}, one},
		{[]ccmap.Frame{at(shapesMain, 4), at(shapesTotal, 3), at(cFrame, 9), at(cFrame, 17)}, one},
		{[]ccmap.Frame{at(shapesMain, 5), at(cFrame, 9), at(shapesTotal, 2), at(sqArea, none)}, one},
		{[]ccmap.Frame{at(truncatedFrame, none), at(shapesTotal, 2), at(sqArea, 0)}, one},
		{[]ccmap.Frame{at(truncatedFrame, none), at(cFrame, 9)}, one},
	})
	m.Meta().Comments = []string{"first"}
	before := contentOf(m.Snapshot())
	got, err := ForPGO(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	want := "main.main+4;main.total+2 10\nmain.main+4;main.total+3 10\nmain.total+2;main.sq.area+? 10\nmain.total+2;main.sq.area+0 10\n"
	if diff := cmp.Diff(want, encode(t, Folded, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if comments := got.Meta().Comments; len(comments) != 2 || !strings.Contains(comments[1], "20.0 %") {
		t.Errorf("comments %q", comments)
	}
	if diff := cmp.Diff(before, contentOf(m.Snapshot())); diff != "" {
		t.Errorf("the profile itself has changed:\n%s", diff)
	}
	again, err := ForPGO(got)
	if diff := cmp.Diff(want, encode(t, Folded, again)); err != nil || diff != "" {
		t.Errorf("a second time (-want +got): %v\n%s", err, diff)
	}
}

func TestForPGOWithoutGo(t *testing.T) {
	t.Parallel()
	m := shapes(map[ccmap.MethodID]int64{kernelFrame: 1})
	if _, err := ForPGO(m.Snapshot()); err != nil {
		t.Error(err)
	}
	m = build(shapesMethods(), []line{{[]ccmap.Frame{{Method: cFrame, Offset: 1}}, ccmap.Counters{Samples: 1, Time: 1}}})
	if _, err := ForPGO(m.Snapshot()); !errors.Is(err, ErrNoGo) {
		t.Errorf("error %v, want %v", err, ErrNoGo)
	}
	if _, err := ForPGO(ccmap.New(ccmap.Options{}).Snapshot()); err != nil {
		t.Errorf("empty profile: %v", err)
	}
}
