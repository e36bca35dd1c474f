package gopgo

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
)

var record = flag.Bool("record", false, "write what the compiler of PATH says into testdata, and what is read of it")

// asks is a program whose calls meet each answer of the compiler. A function of more than 5,000 nodes is a big one,
// and one of more than 2,000 is too large even for a hot call.
var asks = map[string]string{
	"go.mod":     "module example.com/loop\n\ngo 1.26\n",
	"use/use.go": "package use\n\ntype Speaker interface{ Speak(int) int }\n\n//go:noinline\nfunc Use(s Speaker, n int) int {\n\treturn s.Speak(n)\n}\n",
	"main.go": `package main

import (
	"os"

	"example.com/loop/use"
)

type dog struct{ n int }

func (d *dog) Speak(n int) int { return d.n*n + 1 }

type cat struct{ n int }

func (c *cat) Speak(n int) int { return c.n*n + 2 }

type part struct{ n int }

func (p *part) Speak(n int) int { return p.n + n }

type whole struct{ *part }

func (w whole) Other() int { return 3 }

type both interface {
	Speak(int) int
	Other() int
}

func middling(n int) int {
	` + strings.Repeat("n = n*3 + 1; ", 40) + `
	return n
}

//go:noinline
func inlines(n int) int {
	return middling(n) + 1
}

//go:noinline
func speaks(s use.Speaker, n int) int {
	return s.Speak(n)
}

//go:noinline
func value(f func(int) int, n int) int {
	return f(n)
}

//go:noinline
func method(f func(int) int, n int) int {
	return f(n)
}

//go:noinline
func embeds(b both, n int) int {
	return b.Speak(n)
}

//go:noinline
func each[T use.Speaker](t T, n int) int {
	return t.Speak(n)
}

//go:noinline
func marked(n int) int { return n + 1 }

//go:noinline
func callsMarked(n int) int {
	return marked(n)
}

func huge(n int) int {
	` + strings.Repeat("n = n*3 + 1; ", 500) + `
	return n
}

//go:noinline
func callsHuge(n int) int {
	return huge(n)
}

//go:noinline
func bigCaller(n int) int {
	n = middling(n)
	` + strings.Repeat("n = n*3 + 1; ", 1500) + `
	return n
}

func small(n int) int { return middling(n) }

//go:noinline
func callsSmall(n int) int {
	return small(n)
}

//go:noinline
func allocates(n int) *dog {
	return &dog{n}
}

func main() {
	n, d := len(os.Args), &dog{1}
	println(inlines(n), speaks(d, n), speaks(&cat{2}, n), value(func(i int) int { return i * n }, n), method(d.Speak, n),
		embeds(whole{&part{3}}, n), each(d, n), callsMarked(n), callsHuge(n), bigCaller(n), callsSmall(n), allocates(n).n, use.Use(d, n))
}
`,
}

// asked are the calls of a profile of the program.
func asked() Calls {
	edges := []Edge{
		call("main.inlines", 1, "main.middling", 1000),
		call("main.speaks", 1, "main.(*dog).Speak", 900),
		call("main.value", 1, "main.main.func1", 850),
		call("main.method", 1, "main.(*dog).Speak", 840),
		call("main.embeds", 1, "main.(*part).Speak", 830),
		call("main.each[go.shape.*uint8]", 1, "main.(*dog).Speak", 820),
		call("example.com/loop/use.Use", 1, "main.(*dog).Speak", 810),
		call("main.callsMarked", 1, "main.marked", 800),
		call("main.callsHuge", 1, "main.huge", 790),
		call("main.bigCaller", 1, "main.middling", 780),
		call("main.callsSmall", 1, "main.small", 770),
		call("main.small", 0, "main.middling", 760),
		call("main.allocates", 1, "runtime.mallocgc", 750),
		call("main.inlines", 7, "main.middling", 740),
		call("main.speaks", 1, "main.(*cat).Speak", 100),
	}
	return Calls{Edges: edges, Hot: len(edges)}
}

// writeAsks writes the program, and a profile for it.
func writeAsks(t *testing.T) (dir, profile string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "use"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range asks {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, written(t, Whole(asked().Edges, BySamples, ccmap.Meta{}))
}

// buildAsks builds the program with flags of the compiler, and returns what that prints. The profile is one of the
// module's packages alone, so that the standard library is not compiled anew.
func buildAsks(t *testing.T, dir, name, flags string) (binary, said string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", name, "-pgo=off", "-gcflags=example.com/loop/...="+flags, ".")
	build.Dir = dir
	out, err := build.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(dir, name), string(out)
}

// readBuildOf reads a binary.
func readBuildOf(t *testing.T, path string) *Build {
	t.Helper()
	m := Whole(asked().Edges, BySamples, ccmap.Meta{})
	b, err := ReadBuild(t.Context(), path, m.Snapshot(), asked().Edges)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// described prints decisions, a line each.
func described(all []Decision) string {
	var text strings.Builder
	for _, d := range all {
		fmt.Fprintf(&text, "%v: %s → %s, %s", d.Edge, d.Old, d.New, d.Outcome)
		if d.Reason != (Reason{}) {
			fmt.Fprintf(&text, ": %s [%s] %q", d.Reason.Text, d.Reason.Issue, d.Words)
		}
		text.WriteString("\n")
	}
	return text.String()
}

// TestReport asks the compiler of PATH: each call of the program has the outcome and the reason that it was written for.
func TestReport(t *testing.T) {
	t.Parallel()
	dir, profile := writeAsks(t)
	plain, _ := buildAsks(t, dir, "plain", "")
	guided, said := buildAsks(t, dir, "guided", "-pgoprofile="+profile+" -d=pgodebug=3 -m=2")
	older, newer := readBuildOf(t, plain), readBuildOf(t, guided)
	diagnostics, err := ReadDiagnostics(strings.NewReader(said), asked(), newer)
	if err != nil {
		t.Fatal(err)
	}
	// The compiler walks a map of callees: it meets the colder one before the hottest in some builds, and then says nothing of it.
	const colder = `another callee of the line has more samples [] `
	got := strings.Replace(described(Report(asked(), older, newer, diagnostics)), colder+`""`, colder+`"too cold (hottest 900)"`, 1)
	want, err := os.ReadFile("testdata/report.txt")
	if *record {
		if err := os.WriteFile("testdata/report.txt", []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		recordDiagnostics(t, newer.Go, said)
		return
	}
	if err != nil || got != string(want) {
		t.Errorf("%s, want (%v)\n%s", got, err, want)
	}
	for _, f := range Frames(asked(), older, newer) {
		if f.Old == f.New || f.Old < 8 || f.New < 8 {
			t.Errorf("frame %+v", f)
		}
	}
	same := described(Report(asked(), newer, newer, nil))
	if strings.Contains(same, string(Taken)) || strings.Contains(same, string(Undone)) {
		t.Errorf("a build and itself: %s", same)
	}
	undone := described(Report(asked(), newer, older, nil))
	if n := strings.Count(undone, string(Undone)); n != strings.Count(got, string(Taken)) {
		t.Errorf("%d calls are undone: %s", n, undone)
	}
}

// recordDiagnostics keeps what a compiler has said, without pieces of code and its graph.
func recordDiagnostics(t *testing.T, version, said string) {
	t.Helper()
	var kept strings.Builder
	for line := range strings.Lines(said) {
		if len(line) < 400 && !strings.HasPrefix(line, "\"") && !strings.Contains(line, "escape") && !strings.HasPrefix(line, "\t") {
			kept.WriteString(line)
		}
	}
	if err := os.WriteFile("testdata/said-"+version+".txt", []byte(kept.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// askedBuild is what the reader of diagnostics needs of a binary of the program: where its functions begin.
func askedBuild() *Build {
	b := &Build{functions: make(map[string]physical)}
	for i, line := range strings.Split(asks["main.go"], "\n") {
		rest, is := strings.CutPrefix(line, "func ")
		if name, _, ok := strings.Cut(rest, "("); is && ok && name != "" {
			name, _, _ = strings.Cut(name, "[")
			b.functions["main."+name] = physical{first: int32(i + 1)}
		}
	}
	return b
}

// TestDiagnostics reads what compilers have said of the program, by version. They differ in words, not in what they
// mean. To record what the compiler of PATH says: go test ./internal/feedback/gopgo -run TestReport -record.
func TestDiagnostics(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/said-*.txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d recorded outputs: %v", len(files), err)
	}
	for _, file := range files {
		said, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer said.Close()
		d, err := ReadDiagnostics(said, asked(), askedBuild())
		if err != nil {
			t.Fatal(err)
		}
		want := map[string]Reason{
			"main.value+1 → main.main.func1": IsClosure, "main.method+1 → main.(*dog).Speak": IsMethodValue,
			"main.embeds+1 → main.(*part).Speak": NotImplemented, "main.each[go.shape.*uint8]+1 → main.(*dog).Speak": IsGeneric,
			"example.com/loop/use.Use+1 → main.(*dog).Speak": NotExported, "main.speaks+1 → main.(*cat).Speak": Colder,
			"main.callsMarked+1 → main.marked": NotInlinable, "main.callsHuge+1 → main.huge": TooComplex, "main.bigCaller+1 → main.middling": BigCaller,
		}
		for _, e := range asked().Edges {
			is := does{way: WayDirect}
			if reason := want[e.String()]; reason != NotInlinable && reason != TooComplex && reason != BigCaller {
				is.way = WayIndirect
			} else if reason == BigCaller {
				is.line = askedBuild().functions["main.bigCaller"].first + 1
			}
			if got, words := d.on(e, is); got != want[e.String()] || len(words) > mostWords+3 {
				t.Errorf("%s: %v: %q (%s), want %q", file, e, got.Text, words, want[e.String()].Text)
			}
		}
	}
}

// TestDiagnosticsOfNothing: a text without words on a profile is an error, and no words are no reasons.
func TestDiagnosticsOfNothing(t *testing.T) {
	t.Parallel()
	if _, err := ReadDiagnostics(strings.NewReader("# main\n./x.go:1:1: can inline f\n"), asked(), askedBuild()); !errors.Is(err, ErrNoDiagnostics) {
		t.Error(err)
	}
	var none *Diagnostics
	if reason, words := none.on(asked().Edges[0], does{way: WayDirect}); reason != (Reason{}) || words != "" {
		t.Errorf("%v, %q", reason, words)
	}
}

// TestBuildErrors: what is no program of the profile is an error that says what it is.
func TestBuildErrors(t *testing.T) {
	t.Parallel()
	s := Whole(asked().Edges, BySamples, ccmap.Meta{}).Snapshot()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]error{self: ErrOtherProgram, "report_test.go": gosym.ErrNotGo, "missing": os.ErrNotExist} {
		if _, err := ReadBuild(t.Context(), path, s, asked().Edges); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", path, err, want)
		}
	}
}

// TestStackUse: calls that a build inlines take no frame, and threads' stacks are other ones.
func TestStackUse(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	node := m.Root()
	for i, name := range []string{"main.main", "main.inlines", "main.middling", "runtime.systemstack", "runtime.deep"} {
		node = m.Child(node, uint32(i), m.Names().Intern(ccmap.Method{Name: name}))
		m.Add(node, ccmap.Counters{Samples: 1})
	}
	b := &Build{functions: map[string]physical{
		"main.main": {frame: 100}, "main.inlines": {frame: 50}, "main.middling": {frame: 24}, "runtime.deep": {frame: 9000}, "runtime.systemstack": {frame: 16},
	}, calls: map[place][]made{}}
	use, ok := b.StackUse(m.Snapshot())
	if !ok || use.Deepest != 174 || use.Mean != (100+150+174+174+174)/5.0 {
		t.Errorf("%+v, %t", use, ok)
	}
	b.calls[place{"main.inlines", 2}] = []made{{in: "main.inlines", callee: "main.middling", kind: gosym.InlinedCall}}
	if use, _ = b.StackUse(m.Snapshot()); use.Deepest != 150 {
		t.Errorf("with an inlined call: %+v", use)
	}
	if _, ok = b.StackUse(Whole(asked().Edges, BySamples, ccmap.Meta{}).Snapshot()); ok {
		t.Error("calls are no stacks")
	}
}

// FuzzDiagnostics takes anything for the compiler's output. What is kept is about calls of the profile.
func FuzzDiagnostics(f *testing.F) {
	if recorded, err := os.ReadFile("testdata/said-go1.26.8.txt"); err == nil {
		f.Add(string(recorded))
	}
	for _, seed := range []string{
		"hot-callsite-thres-from-CDF=0.1\n# main\n./m.go:3:2: cannot inline huge: function too complex: cost 9 exceeds budget 8\n",
		"m.go:1:2: edge main.speaks:1 -> main.(*cat).Speak (weight 3): too cold (hottest 9)\nm.go:1:2: call main.value:1: hottest callee main.main.func1 (weight 2)\ncallee main.func1 is a closure, skipping\n",
		"hot-big check disallows inlining for call main.middling (cost 90) at ./m.go:66:3 in big function main.bigCaller\nm.go:1:2: call main.value:1: no hot callee\n",
	} {
		f.Add(seed)
	}
	build, edges := askedBuild(), asked()
	known := make(map[siteOf]bool)
	for _, e := range edges.Edges {
		known[siteOf{placeOf(e), plainName(e.Callee.Name)}] = true
	}
	f.Fuzz(func(t *testing.T, said string) {
		d, err := ReadDiagnostics(strings.NewReader(said), edges, build)
		if err != nil {
			if !errors.Is(err, ErrNoDiagnostics) {
				t.Fatal(err)
			}
			return
		}
		for at, n := range d.sites {
			if !known[at] || len(n.words) > mostWords+3 {
				t.Fatalf("%v: %d bytes of words", at, len(n.words))
			}
		}
		for name := range d.functions {
			if _, ok := build.functions[name]; !ok {
				t.Fatal(name)
			}
		}
	})
}
