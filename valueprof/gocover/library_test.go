package gocover

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSplitLibrary: every function of some of Go's own packages is found in its
// source, whatever statements people write.
func TestSplitLibrary(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("builds packages of the standard library again")
	}
	p := runWithLibrary(t, "encoding/json,reflect,strconv,fmt")
	root := goroot(t)
	parsed := make(map[string]*Source)
	functions, branches, switches := 0, 0, 0
	for _, pkg := range p.Packages {
		if pkg.Module == "example.com/counted" {
			continue
		}
		for _, f := range pkg.Functions {
			if parsed[f.File] == nil {
				parsed[f.File] = parseFile(t, filepath.Join(root, "src", f.File))
			}
			parts, ok := parsed[f.File].Split(f, p.Mode)
			if !ok {
				t.Errorf("%s:%d: %s is not in its source", f.File, f.Line, f.Name)
			}
			functions++
			for _, part := range parts {
				branches += len(part.Branches)
				switches += len(part.Switches)
			}
		}
	}
	if functions < 600 || branches < 1200 || switches < 150 {
		t.Errorf("%d functions, %d branches, %d switches: these packages have more", functions, branches, switches)
	}
}

// runWithLibrary runs the counted program with counters in packages that it uses.
func runWithLibrary(t *testing.T, packages string) *Program {
	t.Helper()
	dir := t.TempDir()
	binary := filepath.Join(t.TempDir(), "counted")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=./...,"+packages, "-o", binary, ".")
	build.Dir = "testdata/counted"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	run := exec.Command(binary)
	run.Env = append(os.Environ(), "GOCOVERDIR="+dir)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("run: %v\n%s", err, out)
	}
	return counted{dir: dir}.read(t)
}

func goroot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

func parseFile(t *testing.T, name string) *Source {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseSource(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
