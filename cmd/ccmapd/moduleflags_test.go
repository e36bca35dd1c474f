package main

import (
	"testing"

	"github.com/ccmapd/ccmapd/sampler/engine"
)

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

// TestIntervalOfModules: it is adapted where that is asked for.
func TestIntervalOfModules(t *testing.T) {
	t.Parallel()
	for flag, want := range map[string]bool{
		"-i=1ms": false, "--burst=4": false, "--until=95%": false,
		"--tune": true, "--tune-low=2": true, "--max-overhead=2": true, "--min-interval=1ms": true,
	} {
		cmd := newRunCmd(&environment{})
		if err := cmd.ParseFlags([]string{flag}); err != nil {
			t.Fatal(err)
		}
		if got := asksToTune(cmd); got != want {
			t.Errorf("%s asks for it: %v, want %v", flag, got, want)
		}
	}
}
