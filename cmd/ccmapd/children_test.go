package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

func TestChildrenUsage(t *testing.T) {
	t.Parallel()
	module := filepath.Join(t.TempDir(), "module.wasm")
	if err := os.WriteFile(module, []byte("\x00asm\x01\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"attach 42 --children -o -":                  "--children wants files",
		"attach 42 --children -o /dev/null --to xml": "--children wants files",
		"attach 42 --children --live":                "[children live]",
		"attach 42 --children --daemon":              "[children daemon]",
		"attach http://127.0.0.1:1/x --children":     "--children is for processes on this machine",
		"run --children -- " + module:                "--children is for programs",
	} {
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, strings.Fields(args)...)
		if r.code == exitOK || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: exit code %d, %q, want %q", args, r.code, r.stderr, want)
		}
	}
}

// TestRunChildren runs the go command, which is sampled with the compilers that it starts. Their
// profiles are in a file beside its own.
func TestRunChildren(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	needEngine(t)
	if testing.Short() {
		t.Skip("compiles packages")
	}
	file := filepath.Join(t.TempDir(), "build.pb.gz")
	c := exec.Command("ccmapd", "run", "--children", "-i", "1ms", "--max-host-overhead=0", "--json", "-o", file, "--", "go", "build", ".")
	c.Dir, c.Env = newPackage(t), append(os.Environ(), "GOMAXPROCS=2")
	var report strings.Builder
	c.Stderr = &report
	if err := c.Run(); err != nil {
		t.Fatalf("%v: %s", err, &report)
	}
	var got struct {
		Written  []string
		Children struct {
			Processes, Sampled, Missed, Unmanaged, Refused int
			Programs                                       []struct {
				Program string
				Samples int64
				Written []string
			}
		}
	}
	if err := json.Unmarshal([]byte(report.String()[strings.Index(report.String(), "{"):]), &got); err != nil {
		t.Fatalf("%v: %s", err, &report)
	}
	k := got.Children
	if k.Sampled == 0 || k.Processes != k.Sampled+k.Missed+k.Unmanaged+k.Refused {
		t.Errorf("children: %+v", k)
	}
	for _, p := range k.Programs {
		if filepath.Base(p.Program) != "compile" {
			continue
		}
		if len(p.Written) != 1 || !strings.HasPrefix(filepath.Base(p.Written[0]), "build.compile-") || !slices.Contains(got.Written, p.Written[0]) {
			t.Fatalf("written: %q of %+v", got.Written, p)
		}
		m, _, err := export.ReadFile(p.Written[0], export.ReadOptions{})
		if err != nil || m.Snapshot().Total().Samples != p.Samples {
			t.Errorf("read %q: %v", p.Written, err)
		}
		return
	}
	t.Errorf("no compiler among the programs: %+v", k)
}

// newPackage writes a package that no cache has, and that takes a compiler some seconds.
func newPackage(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	source := fmt.Appendf(nil, "package made\n\nconst Made = %d\n", time.Now().UnixNano())
	for i := range 2000 {
		source = fmt.Appendf(source, "\nfunc F%d(a []int) (n int) {\n\tfor i, v := range a {\n\t\tif v%%%d == i {\n\t\t\tn += v * i\n\t\t}\n\t}\n\treturn n\n}\n", i, i+2)
	}
	for name, text := range map[string][]byte{"go.mod": []byte("module made\n\ngo 1.26\n"), "made.go": source} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
