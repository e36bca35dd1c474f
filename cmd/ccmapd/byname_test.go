package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// startNamed starts a copy of cat under a name, which waits, and returns its number.
func startNamed(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cat, err := exec.LookPath("cat")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Copy(t, cat, name), append([]string{"-"}, args...)...)
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	return cmd
}

// TestAttachByName finds a process by its name, its executable and its command line.
func TestAttachByName(t *testing.T) {
	t.Parallel()
	cmd := startNamed(t, "ccmapd-by-name-and-long", "/tmp/by-name-7f3a")
	for _, args := range [][]string{
		{fmt.Sprint(cmd.Process.Pid)},
		{"ccmapd-by-name-and-long"}, // the executable
		{"ccmapd-by-name-"},         // the process, as ps shows it
		{cmd.Path},
		{"--match", "by-name-7f[0-9]a$"},
	} {
		file := filepath.Join(t.TempDir(), "%p.json")
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, append([]string{"attach", "-o", file}, args...)...)
		if want := fmt.Sprintf("Sampling %d ", cmd.Process.Pid); r.code != exitOK || !strings.HasPrefix(r.stderr, want) {
			t.Errorf("attach %s exits with %d, want %q: %s", args, r.code, want, r.stderr)
		}
	}
	for _, test := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"no-such-name-7f3a"}, exitNoTarget, `no process is named "no-such-name-7f3a"`},
		{[]string{"--match", "no-such-7f3[a]$"}, exitNoTarget, `no process has a command line like "no-such-7f3[a]$"`},
		{[]string{"--match", "("}, exitUsage, "not a regular expression"},
		{[]string{"--match", "x", "y"}, exitUsage, "no process beside --match"},
		{[]string{"-1"}, exitUsage, ""},
		{[]string{"0"}, exitUsage, `"0" is not a process id`},
		{nil, exitUsage, "one process id, name or URL"},
	} {
		if r := runEngines(t, []engine.Engine{fakeEngine(false)}, append([]string{"attach"}, test.args...)...); r.code != test.code || !strings.Contains(r.stderr, test.want) {
			t.Errorf("attach %s exits with %d: %s", test.args, r.code, r.stderr)
		}
	}
}

// TestAttachListsSeveral: which of two is meant nobody guesses, and their command lines cannot
// harm a terminal.
func TestAttachListsSeveral(t *testing.T) {
	t.Parallel()
	one := startNamed(t, "ccmapd-twins", "first\x1b[31m\nwarning")
	two := startNamed(t, "ccmapd-twins", "second")
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "ccmapd-twins")
	if r.code != exitUsage || !strings.HasPrefix(r.stderr, `ccmapd: each of 2 processes is named "ccmapd-twins": give the id of one`+"\n") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	for _, cmd := range []*exec.Cmd{one, two} {
		f, err := process.FactsOf(cmd.Process.Pid)
		if err != nil {
			t.Fatal(err)
		}
		if row := fmt.Sprintf("%d  %s ", cmd.Process.Pid, f.User()); !strings.Contains(r.stderr, row) {
			t.Errorf("lacks %q: %s", row, r.stderr)
		}
	}
	if strings.Contains(r.stderr, "\x1b") || strings.Contains(r.stderr, "\nwarning") {
		t.Errorf("prints a command line raw: %q", r.stderr)
	}
}

// TestFoundProcessIsPinned: where the process ends before it is sampled, its number may be
// another one's.
func TestFoundProcessIsPinned(t *testing.T) {
	t.Parallel()
	cmd := startNamed(t, "ccmapd-pinned")
	p, err := findByName("ccmapd-pinned")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	cmd.Process.Kill()
	cmd.Wait()
	open := p.checked(func(o sampler.ProcessOptions) (engine.Choice, error) {
		return engine.Choice{Source: &fakeSource{ProcessOptions: o}}, nil
	})
	if got, err := open(sampler.ProcessOptions{}); got.Source != nil || exitCode(err) != exitNoTarget {
		t.Errorf("opens %+v, %v", got, err)
	}
}
