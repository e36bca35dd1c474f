package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/wasi"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// writeFile writes a file into a new directory and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeGuest writes one of the small guests to a file and returns its path.
func writeGuest(t *testing.T, name string) string {
	t.Helper()
	return writeFile(t, name+".wasm", string(guests.Small(name)))
}

// checkOutput looks for what is to be printed.
func checkOutput(t *testing.T, output string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(output, want) {
			t.Errorf("output lacks %q:\n%s", want, output)
		}
	}
}

// runCommand runs ccmapd in a process of its own, whose garbage collector a profiler
// of modules takes over.
func runCommand(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd := exec.Command("ccmapd", args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = t.TempDir(), &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// TestRunOfRefusedModule: wazero runs it, the profiler does not take it.
func TestRunOfRefusedModule(t *testing.T) {
	t.Parallel()
	path := writeFile(t, "refused.wasm", guests.Refused)
	r := runCommand(t, "run", path)
	checkOutput(t, r.stderr, path+" is not started: ", "module", "\n  --anyway runs it without sampling it.\n")
	if r.code != exitRunFailed {
		t.Errorf("exit code %d, want %d", r.code, exitRunFailed)
	}
	r = runCommand(t, "run", "--anyway", path)
	checkOutput(t, r.stderr, path+" runs without being sampled: ")
	if r.code != exitOK {
		t.Errorf("anyway: exit code %d, %s", r.code, r.stderr)
	}
	if r = runCommand(t, "run", "--anyway", "-q", path); r != (result{}) {
		t.Errorf("anyway and quiet: %+v", r)
	}
}

// TestRunOfBadModules: what cannot be run at all, --anyway or not.
func TestRunOfBadModules(t *testing.T) {
	t.Parallel()
	for binary, want := range map[string]string{
		guests.Empty + "\x01\x04\x01": "is not started: compile module: ",
		guests.Empty + "\xff\xff\xff": "is not started: compile module: ",
		guests.Importing:              `is not started: module imports "f" of "env", which nothing provides`,
		guests.Importing + "\x03\xff": `is not started: module imports "f" of "env", which nothing provides`, // before it is compiled
		guests.ImportingUnknown:       `is not started: module imports "fd_fly" of "wasi_snapshot_preview1", which nothing provides`,
		guests.Sharing:                "programs for WASI preview 1 have one",
		guests.BadData:                "out of bounds memory access",
	} {
		file := filepath.Join(t.TempDir(), "a.json")
		r := runCommand(t, "run", "--anyway", "-o", file, writeFile(t, "bad.wasm", binary))
		checkOutput(t, r.stderr, want)
		if r.code != exitCannotRun || r.stdout != "" {
			t.Errorf("%q: exit code %d, want %d: %s", binary, r.code, exitCannotRun, r.stdout)
		}
	}
}

// TestTrapIsReported at the end, when the profile is written.
func TestTrapIsReported(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.json")
	r := runCommand(t, "run", "-o", file, writeFile(t, "trap.wasm", guests.Trapping))
	checkOutput(t, r.stderr, "Module trapped: unreachable.\n", "Written: "+file, "\nccmapd: wasm error: unreachable\n  wasm stack trace:\n")
	if r.code != exitTrapped {
		t.Errorf("exit code %d, want %d", r.code, exitTrapped)
	}
}

func TestExitOfGuest(t *testing.T) {
	t.Parallel()
	failed := errors.New("wasm error: unreachable")
	for end, want := range map[wasi.End]int{
		{}: exitOK, {Code: 7}: 7, {Err: failed, Trapped: true}: exitTrapped, {Err: failed, NotStarted: true}: exitCannotRun, {Code: 7, Err: failed}: 7,
	} {
		if got := exitCode(exitOfGuest(end)); got != want {
			t.Errorf("exit code of %+v is %d, want %d", end, got, want)
		}
	}
}

// TestModuleFlagsAreForModules, and some others are not.
func TestModuleFlagsAreForModules(t *testing.T) {
	t.Parallel()
	module := writeGuest(t, "hello")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--env", "A=1", "/bin/true"}, "--env is for WebAssembly modules, and /bin/true is none"},
		{[]string{"--dir", "/", "/bin/true"}, "--dir is for WebAssembly modules"},
		{[]string{"--exact", "/bin/true"}, "--exact is for WebAssembly modules"},
		{[]string{"--burst", "4", "/bin/true"}, "--burst is for WebAssembly modules"},
		{[]string{"--engine", "auto", module}, "--engine is for other programs"},
		{[]string{"--max-host-overhead", "2", module}, "--max-host-overhead is for other programs"},
		{[]string{"--env", "A", module}, `--env "A" is not NAME=VALUE`},
		{[]string{"--env", "=1", module}, `--env "=1" is not NAME=VALUE`},
		{[]string{"--dir", module, module}, "not a directory"},
		{[]string{"-o", "a.pgo", module}, "output a.pgo: a WebAssembly module has no functions that 'go build -pgo' could use\n  Name it .pb.gz"},
		{[]string{"--exact", "-o", "a.folded.gz", module}, "output a.folded.gz: folded has no place for instructions"},
		{[]string{"--exact", "-o", "-", "--to", "folded", module}, "output -: folded has no place for instructions"},
		{[]string{"--exact", "--burst", "4", module}, "--exact and --burst exclude each other"},
		{[]string{"--exact", "-i", "1ms", module}, "--exact and --interval exclude each other"},
		{[]string{"--exact", "--tune=false", module}, "--exact and --tune exclude each other"},
	} {
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, append([]string{"run"}, test.args...)...)
		checkOutput(t, r.stderr, "ccmapd: ", test.want)
		if r.code != exitUsage || r.stdout != "" {
			t.Errorf("run %q: exit code %d, output %q, %q", test.args, r.code, r.stdout, r.stderr)
		}
	}
}
