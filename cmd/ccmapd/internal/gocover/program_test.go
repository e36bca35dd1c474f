package gocover

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTextIsCovdatas: the counts equal the counts of Go's own tool.
func TestTextIsCovdatas(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		c := counts(t, mode)
		p := c.read(t)
		if p.Mode != mode || p.Runs != 2 {
			t.Errorf("mode %v, %d runs; want %v, 2", p.Mode, p.Runs, mode)
		}
		out := filepath.Join(t.TempDir(), "text")
		covdata(t, "textfmt", c.dir, "-o="+out)
		want, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := p.writeText(&got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("text (-covdata +ours):\n%s", diff)
		}
	})
}

// TestFunctionsAreCovdatas compares names, lines and percentages of functions.
func TestFunctionsAreCovdatas(t *testing.T) {
	t.Parallel()
	modes(t, func(t *testing.T, mode Mode) {
		c := counts(t, mode)
		var want []string
		for line := range strings.Lines(covdata(t, "func", c.dir)) {
			if fields := strings.Fields(line); fields[0] != "total" {
				want = append(want, strings.Join(fields, " "))
			}
		}
		slices.Sort(want)
		if diff := cmp.Diff(want, functionLines(c.read(t))); diff != "" {
			t.Errorf("functions (-covdata +ours):\n%s", diff)
		}
	})
}

// functionLines prints functions as covdata does, which merges the init functions of a
// file.
func functionLines(p *Program) []string {
	var lines []string
	for _, pkg := range p.Packages {
		for _, f := range pkg.Functions {
			if f.literal || f.Name == "init.1" {
				continue
			}
			name := strings.NewReplacer("(", "", ")", "", "init.0", "init").Replace(f.Name)
			lines = append(lines, fmt.Sprintf("%s:%d: %s %.1f%%", f.File, f.Line, name, percentCovered(f)))
		}
	}
	slices.Sort(lines)
	return lines
}

func percentCovered(f Function) float64 {
	var all, covered uint32
	for _, b := range f.Blocks {
		all += b.Statements
		if b.Count > 0 {
			covered += b.Statements
		}
	}
	return 100 * float64(covered) / float64(max(all, 1))
}

// TestSymbols: functions have the runtime's names, as far as the files tell.
func TestSymbols(t *testing.T) {
	t.Parallel()
	p := counts(t, ModeCount).read(t)
	var got []string
	for _, pkg := range p.Packages {
		for _, f := range pkg.Functions {
			got = append(got, pkg.Symbol(&f))
		}
	}
	slices.Sort(got)
	want := []string{
		"example.com/counted/lib%2ev1.Retry",
		"main.(*shape).pointer", "main.all", "main.classify", "main.count", "main.init.0", "main.init.1",
		"main.init.func1", "main.kind", "main.main", "main.mapped", "main.push", "main.receive",
		"main.shape.value", "main.unused", "main.work",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("symbols (-want +got):\n%s", diff)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ path, name, want string }{
		{"example.com/cmd/x", "main", "main"},
		{"gopkg.in/yaml.v3", "yaml", "gopkg.in/yaml%2ev3"},
		{"gopkg.in/yaml.v3/sub", "sub", "gopkg.in/yaml.v3/sub"},
		{"fmt", "fmt", "fmt"},
		{"a b%/ü\"", "x", "a%20b%25/%c3%bc%22"},
	} {
		p := Package{Path: test.path, Name: test.name}
		if got := p.Symbol(&Function{Name: "F"}); got != test.want+".F" {
			t.Errorf("symbol of F in %s is %s, want %s.F", test.path, got, test.want)
		}
	}
}

// TestCallsAreTrue: the count of the first block is the number of calls.
func TestCallsAreTrue(t *testing.T) {
	t.Parallel()
	c := counts(t, ModeCount)
	for _, pkg := range c.read(t).Packages {
		for _, f := range pkg.Functions {
			want, counts := c.truth["call "+pkg.Symbol(&f)]
			if counts && f.Blocks[0].Count != uint64(want) {
				t.Errorf("%s: %d calls, want %d", pkg.Symbol(&f), f.Blocks[0].Count, want)
			}
			if f.Executed() != (f.Name != "unused") {
				t.Errorf("%s: executed %v", f.Name, f.Executed())
			}
		}
	}
}
