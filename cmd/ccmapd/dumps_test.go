package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

func TestCheckOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.xml"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		want int
	}{
		{"a.pb.gz", exitOK}, {"a.pb", exitOK}, {"a.xml.zst", exitOK}, {"a.json", exitOK}, {"a.folded.gz", exitOK},
		{"a-%p.pb.gz", exitOK}, {"%p/a.xml", exitOK},
		{"a.doc", exitUsage}, {"a", exitUsage}, {"dir.xml", exitUsage}, {"file/a.xml", exitUsage},
		{"missing/a.xml", exitFailed},
	} {
		if got := exitCode(output.Check([]string{filepath.Join(dir, test.name)})); got != test.want {
			t.Errorf("output %s: exit code %d, want %d", test.name, got, test.want)
		}
	}
}

// TestOutputsAreNamedOnce, however they are written.
func TestOutputsAreNamedOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, twice := range [][2]string{
		{"-", "-"}, {"-", "/dev/stdout"}, {"/dev/stdout", "-"},
		{dir + "/a.xml", dir + "/a.xml"}, {dir + "/a.xml", dir + "//./a.xml"},
	} {
		err := output.Check([]string{twice[0], dir + "/b.xml", twice[1]})
		if exitCode(err) != exitUsage || !strings.Contains(err.Error(), "output "+twice[1]+" is named twice") {
			t.Errorf("outputs %q: %v", twice, err)
		}
	}
	if err := output.Check([]string{"-", dir + "/a.xml", dir + "/a.json"}); err != nil {
		t.Error(err)
	}
}

func TestCheckOutputsAsksForPermission(t *testing.T) {
	t.Parallel()
	if os.Geteuid() == 0 {
		t.Skip("root may write anywhere")
	}
	if got := exitCode(output.Check([]string{"/a.xml"})); got != exitPermission {
		t.Errorf("exit code %d, want %d", got, exitPermission)
	}
}

func TestFileDumps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := newSamplingFlags(nil)
	f.outputs = []string{filepath.Join(dir, "%p.xml"), filepath.Join(dir, "missing", "a.json")}
	dumps := f.dumps(&environment{}, 42)
	snapshot := ccmap.New(ccmap.Options{}).Snapshot()
	if want := filepath.Join(dir, "42.xml"); dumps[0].Name != want {
		t.Errorf("name %s, want %s", dumps[0].Name, want)
	}
	if err := dumps[0].Write(snapshot); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(dumps[0].Name); err != nil {
		t.Error(err)
	}
	if err := dumps[1].Write(snapshot); err == nil {
		t.Error("no error for a directory that is missing")
	}
}

// TestProfileToStandardOutput: nothing else is printed there.
func TestProfileToStandardOutput(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]export.Format{"": export.Pprof, "json": export.JSON, "folded": export.Folded} {
		args := []string{"attach", "42", "-o", "-"}
		if flag != "" {
			args = append(args, "--to", flag)
		}
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, args...)
		_, format, err := export.Read(strings.NewReader(r.stdout), export.ReadOptions{})
		if r.code != exitOK || err != nil || format != want {
			t.Errorf("%q: exit code %d, format %v, %v: %s", flag, r.code, format, err, r.stderr)
		}
		checkOutput(t, r.stderr, "main.work", "\nWritten: standard output.\n")
		if strings.Contains(r.stderr, "'standard output'") {
			t.Errorf("%q: a command reads it: %s", flag, r.stderr)
		}
	}
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "--to", "json")
	if r.code != exitUsage || !strings.Contains(r.stderr, "--to json is for standard output: add -o -") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}
