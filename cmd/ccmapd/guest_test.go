package main

import (
	"bytes"
	"context"
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tetratelabs/wazero"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// checkOutput looks for what is to be printed.
func checkOutput(t *testing.T, output string, wanted ...string) {
	t.Helper()
	for _, want := range wanted {
		if !strings.Contains(output, want) {
			t.Errorf("output lacks %q:\n%s", want, output)
		}
	}
}

// runGuest runs a module that is not sampled.
func runGuest(t *testing.T, binary []byte, stdin string, c wazero.ModuleConfig, args ...string) (guestEnd, result) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	env := &environment{stdin: strings.NewReader(stdin), stdout: &stdout, stderr: &stderr}
	ctx := context.Background()
	g, err := newGuest(ctx, env, &module{"/somewhere/guest.wasm", binary}, args, c)
	if err != nil {
		t.Fatal(err)
	}
	defer g.close(ctx)
	if err := g.compile(ctx, g.runtime); err != nil {
		t.Fatal(err)
	}
	return g.run(ctx), result{stdout: stdout.String(), stderr: stderr.String()}
}

func TestGuestHasArgumentsEnvironmentAndInput(t *testing.T) {
	t.Parallel()
	f := moduleFlags{env: []string{"LANG=C", "EMPTY=", "SUM=1+1=2"}}
	config, err := f.config()
	if err != nil {
		t.Fatal(err)
	}
	end, r := runGuest(t, guests.Small("hello"), "first\nsecond\n", config, "-x", "", "--", "y")
	const want = "guest.wasm\n-x\n\n--\ny\nLANG=C\nEMPTY=\nSUM=1+1=2\nstdin:\nfirst\nsecond\n"
	if end != (guestEnd{}) || r.stdout != want {
		t.Errorf("ended with %+v, printed %q, want %q", end, r.stdout, want)
	}
}

// The smallest programs that end in their own ways.
const (
	// (module (func (export "_start") unreachable))
	trapping = coreHeader + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x05\x01\x03\x00\x00\x0b"
	// (module (func $start unreachable) (start $start))
	trappingAtStart = coreHeader + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x08\x01\x00\x0a\x05\x01\x03\x00\x00\x0b"
	// (module (func (export "_start") (loop (br 0))))
	endless = coreHeader + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x09\x01\x07\x00\x03\x40\x0c\x00\x0b\x0b"
	// (module (memory 0) (data (i32.const 0) "x"))
	badData = coreHeader + "\x05\x03\x01\x00\x00\x0b\x07\x01\x00\x41\x00\x0b\x01x"
	// (module (tag) (func (export "_start")))
	refused = coreHeader + "\x01\x04\x01\x60\x00\x00\x03\x02\x01\x00\x0d\x03\x01\x00\x00\x07\x0a\x01\x06_start\x00\x00\x0a\x04\x01\x02\x00\x0b"
	// (module (func (import "env" "f")))
	importing = coreHeader + "\x01\x04\x01\x60\x00\x00\x02\x09\x01\x03env\x01f\x00\x00"
	// (module (func (import "wasi_snapshot_preview1" "fd_fly")))
	importingUnknown = coreHeader + "\x01\x04\x01\x60\x00\x00\x02\x21\x01\x16wasi_snapshot_preview1\x06fd_fly\x00\x00"
	// (module (memory 1 1 shared))
	sharing = coreHeader + "\x05\x04\x01\x03\x01\x01"
)

// TestSayCompiling: nothing is said of what is compiled at once.
func TestSayCompiling(t *testing.T) {
	t.Parallel()
	var said strings.Builder
	m := &module{path: "/somewhere/big.wasm", binary: make([]byte, 12e6)}
	sayCompiling(&said, m, nil)()
	if said.Len() > 0 {
		t.Errorf("at once: %q", &said)
	}
	slow := make(chan time.Time)
	stop := sayCompiling(&said, m, slow)
	slow <- time.Time{}
	stop()
	if want := "Compiling big.wasm of 12.0 MB, which may take a minute …\n"; said.String() != want {
		t.Errorf("slowly: %q, want %q", &said, want)
	}
}

func TestGuestEnds(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		binary string
		code   int
		reason string
	}{
		"tail calls":  {string(guests.Small("tailcalls")), 0, "module exited with code 0"},
		"return":      {string(guests.Small("hello")), 0, "module exited with code 0"},
		"proc_exit":   {string(guests.Small("exit")), 7, "module exited with code 7"},
		"library":     {string(guests.Small("fib")), 0, "module exited with code 0"},
		"empty":       {coreHeader, 0, "module exited with code 0"},
		"trap":        {trapping, exitTrapped, "module trapped: unreachable"},
		"start":       {trappingAtStart, exitTrapped, "module trapped: unreachable"},
		"instantiate": {badData, exitCannotRun, "module was not started: "},
	} {
		end, _ := runGuest(t, []byte(test.binary), "", wazero.NewModuleConfig())
		if end.code != test.code || !strings.HasPrefix(end.reason(), test.reason) {
			t.Errorf("%s: ended with code %d, %q; want %d, %q", name, end.code, end.reason(), test.code, test.reason)
		}
		if got := exitCode(end.exit()); got != test.code {
			t.Errorf("%s: exit code %d, want %d", name, got, test.code)
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
	path := writeFile(t, "refused.wasm", refused)
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
		coreHeader + "\x01\x04\x01": "is not started: compile module: ",
		coreHeader + "\xff\xff\xff": "is not started: compile module: ",
		importing:                   `is not started: module imports "f" of "env", which nothing provides`,
		importing + "\x03\xff":      `is not started: module imports "f" of "env", which nothing provides`, // before it is compiled
		importingUnknown:            `is not started: module imports "fd_fly" of "wasi_snapshot_preview1", which nothing provides`,
		sharing:                     "programs for WASI preview 1 have one",
		badData:                     "out of bounds memory access",
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
	r := runCommand(t, "run", "-o", file, writeFile(t, "trap.wasm", trapping))
	checkOutput(t, r.stderr, "Module trapped: unreachable.\n", "Written: "+file, "\nccmapd: wasm error: unreachable\n  wasm stack trace:\n")
	if r.code != exitTrapped {
		t.Errorf("exit code %d, want %d", r.code, exitTrapped)
	}
}
