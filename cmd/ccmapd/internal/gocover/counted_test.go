package gocover

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// counted is the program of testdata/counted after two runs in one mode.
type counted struct {
	dir   string         // its GOCOVERDIR
	truth map[string]int // what both runs have counted by themselves
}

// countedIn builds and runs it once a mode.
var countedIn = map[Mode]func() (counted, error){
	ModeSet:    sync.OnceValues(func() (counted, error) { return runCounted("set") }),
	ModeCount:  sync.OnceValues(func() (counted, error) { return runCounted("count") }),
	ModeAtomic: sync.OnceValues(func() (counted, error) { return runCounted("atomic") }),
}

var scratch string

func TestMain(m *testing.M) {
	tests := testrun.Guard(m)
	var err error
	if scratch, err = os.MkdirTemp("", "gocover"); err != nil {
		panic(err)
	}
	code := tests.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

func runCounted(mode string) (counted, error) {
	c := counted{dir: filepath.Join(scratch, mode), truth: make(map[string]int)}
	binary := filepath.Join(scratch, "counted-"+mode)
	build := exec.Command("go", "build", "-cover", "-covermode="+mode, "-o", binary, ".")
	build.Dir = "testdata/counted"
	if out, err := build.CombinedOutput(); err != nil {
		return c, fmt.Errorf("build: %w\n%s", err, out)
	}
	if err := os.Mkdir(c.dir, 0o700); err != nil {
		return c, err
	}
	for _, args := range [][]string{{"3"}, nil} {
		run := exec.Command(binary, args...)
		run.Env = append(os.Environ(), "GOCOVERDIR="+c.dir)
		out, err := run.Output()
		if err != nil {
			return c, fmt.Errorf("run: %w", err)
		}
		var truth map[string]int
		if err := json.Unmarshal(out, &truth); err != nil {
			return c, err
		}
		for what, n := range truth {
			c.truth[what] += n
		}
	}
	return c, nil
}

func counts(t testing.TB, mode Mode) counted {
	t.Helper()
	c, err := countedIn[mode]()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (c counted) read(t testing.TB) *Program {
	t.Helper()
	d, err := ReadDir(c.dir, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Programs) != 1 || len(d.Ignored) > 0 {
		t.Fatalf("%d programs, ignored %v; want one program", len(d.Programs), d.Ignored)
	}
	return d.Programs[0]
}

// modes runs a test in every mode; a short one in mode count.
func modes(t *testing.T, test func(t *testing.T, mode Mode)) {
	for _, mode := range []Mode{ModeSet, ModeCount, ModeAtomic} {
		if testing.Short() && mode != ModeCount {
			continue
		}
		t.Run(mode.String(), func(t *testing.T) {
			t.Parallel()
			test(t, mode)
		})
	}
}

// covdata runs 'go tool covdata'.
func covdata(t *testing.T, command, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command(programtest.GoTool(t, "covdata"), append([]string{command, "-i=" + dir}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("covdata %s: %v\n%s", command, err, errs.String())
	}
	return out.String()
}

// sources parses the files of the program, by their names in the coverage.
func sources(t *testing.T) map[string]*Source {
	t.Helper()
	all := make(map[string]*Source)
	for _, file := range []string{"truth.go", "work.go", "choose.go", "lib.v1/lib.go"} {
		s, err := ParseSource(sourceText(t, file))
		if err != nil {
			t.Fatal(err)
		}
		all["example.com/counted/"+file] = s
	}
	return all
}

func sourceText(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/counted", file))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// marked returns the names that comments of the program give to its lines:
// "branch small" stands for one line of one file.
func marked(t *testing.T, file string) map[uint32]string {
	names := make(map[uint32]string)
	line := uint32(1)
	for text := range strings.Lines(string(sourceText(t, file))) {
		if _, name, ok := strings.Cut(text, " // "); ok {
			names[line] = strings.TrimSpace(name)
		}
		line++
	}
	return names
}
