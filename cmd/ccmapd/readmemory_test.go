package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/testdata/hostile/files"
)

// TestHostileFilesInBoundedMemory reads some of the worst hostile files in a process
// that may not have more memory: Go reserves some 1.7 GiB of addresses that it does not
// use. scripts/hostile has all kinds, with their figures, and reads these at their full sizes.
func TestHostileFilesInBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("the race detector needs more addresses than these limits have")
	}
	t.Parallel()
	kinds := make(map[string]files.Kind)
	for _, k := range files.Kinds() {
		kinds[k.Name] = k
	}
	for _, test := range []struct {
		kind  string
		size  int
		wants string // in the error; "": there is none
	}{
		{"equal.pb.gz", 3 << 20, ""},
		{"names.pb.gz", 3000, "--max-read-memory"},
		{"nesting.xml.gz", 10_000_000, "elements in each other"},
		{"values.json.gz", 5 << 20, "--max-read-memory"},
	} {
		t.Run(test.kind, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			file := filepath.Join(dir, test.kind)
			if err := kinds[test.kind].Write(file, test.size); err != nil {
				t.Fatal(err)
			}
			for _, line := range []string{"merge -o OUT FILE FILE"} {
				args := commandLine(line, file, filepath.Join(dir, "out.pb.gz"))
				cmd := exec.Command("prlimit", append([]string{"--core=0", "--as=2600000000", "ccmapd"}, args...)...)
				var stderr bytes.Buffer
				cmd.Stderr = &stderr
				err := cmd.Run()
				var exit *exec.ExitError
				if err != nil && !errors.As(err, &exit) {
					t.Fatal(err)
				}
				failed := test.wants != ""
				if code := cmd.ProcessState.ExitCode(); failed != (code == exitFailed) || !strings.Contains(stderr.String(), test.wants) {
					t.Errorf("ccmapd %s: exit code %d, %.300s, want %q", line, code, &stderr, test.wants)
				}
			}
		})
	}
}

// TestMaxReadMemory: the error names the limit and the flag that raises it, and profiles
// share the limit.
func TestMaxReadMemory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := wideProfile(t, dir)
	for line, limit := range map[string]string{
		"top FILE":               "1MiB",
		"convert FILE OUT":       "1MiB",
		"diff FILE FILE":         "4MiB",
		"overlap FILE FILE":      "4MiB",
		"merge -o OUT FILE":      "3MiB",
		"merge -o OUT FILE FILE": "3MiB",
	} {
		args := append(commandLine(line, file, filepath.Join(dir, "out.xml")), "--max-read-memory")
		code, _, stderr := runWith(append(args, limit), nil)
		if code != exitFailed || !strings.Contains(stderr, "too much memory") || !strings.Contains(stderr, "--max-read-memory") {
			t.Errorf("ccmapd %s in %s: exit code %d, %s", line, limit, code, stderr)
		}
		for _, enough := range []string{"40MiB", "0"} {
			if code, _, stderr := runWith(append(args, enough), nil); code != exitOK {
				t.Errorf("ccmapd %s in %s: exit code %d, %s", line, enough, code, stderr)
			}
		}
	}
}

// TestMergePipes: a profile from a pipe may take as much memory as one in a file.
func TestMergePipes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := wideProfile(t, dir)
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, in := range []string{file, "-", fifo} {
		if in == fifo {
			go os.WriteFile(fifo, content, 0)
		}
		args := append(commandLine("merge -o OUT FILE", in, filepath.Join(dir, "out.xml")), "--max-read-memory", "10MiB")
		if code, _, stderr := runWith(args, content); code != exitOK {
			t.Errorf("merge of %s: exit code %d, %s", in, code, stderr)
		}
	}
}

// wideProfile writes a profile of 20,000 contexts.
func wideProfile(t *testing.T, dir string) string {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	method := m.Names().Intern(ccmap.Method{Name: "f"})
	for i := range uint32(20_000) {
		m.Add(m.Child(m.Child(m.Root(), 0, method), i, method), ccmap.Counters{Samples: 1, Time: 1})
	}
	file := filepath.Join(dir, "a.pb.gz")
	if err := export.WriteFile(file, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return file
}
