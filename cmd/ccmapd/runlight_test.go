package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// TestSecondRunOfModule: a module begins with what a file, or the user's store, knows of it, and says which functions
// go without what. Its output is its own. What is no profile keeps it from nothing. A profile that is wrong about a
// call is in the log of the store.
func TestSecondRunOfModule(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	path, err := guests.Go(t.Context(), "eval")
	if err != nil {
		t.Fatal(err)
	}
	store := storeVariable + "=" + filepath.Join(t.TempDir(), "store")
	of := func(args ...string) (stdout, stderr string, err error) {
		cmd := exec.Command("ccmapd", args...)
		var out, errs strings.Builder
		cmd.Dir = t.TempDir() // for the profile of a run without -o and --store
		cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), store), &out, &errs
		err = cmd.Run()
		return out.String(), errs.String(), err
	}
	profile := filepath.Join(t.TempDir(), "first.json")
	// The first run has more rounds: on a busy machine fewer samples come in time, and a profile of few is not used.
	rounds := "600"
	run := func(flags ...string) (stderr string) {
		t.Helper()
		stdout, stderr, err := of(append(append([]string{"run", "-q", "-i", "1ms", "--tune=false"}, flags...), path, rounds)...)
		if err != nil || !strings.HasPrefix(stdout, "rounds "+rounds+"\n") {
			t.Fatalf("%v: %v\n%s%s", flags, err, stdout, stderr)
		}
		return stderr
	}
	used := regexp.MustCompile(`cached: used: main\.\(\*binary\)\.eval goes without `)
	if stderr := run("--store", "--mode", "2", "--store-log", "use", "-o", profile); !strings.Contains(stderr, "cached: nothing is stored of ") || used.MatchString(stderr) {
		t.Errorf("the first run:\n%s", stderr)
	}
	rounds = "150"
	text, err := os.ReadFile(profile)
	if err != nil {
		t.Fatal(err)
	}
	// In the earlier run the calls of a while reached another function.
	other := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(other, bytes.ReplaceAll(text, []byte("main.(*while).eval"), []byte("main.(*until).eval")), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range [][]string{{"--store"}, {"--store", "--cached", other}} {
		if stderr := run(append(flags, "--mode", "2", "--store-log", "use")...); !used.MatchString(stderr) {
			t.Errorf("%v:\n%s", flags, stderr)
		}
	}
	stdout, stderr, err := of("store", "records", filepath.Base(path), "--json")
	if err != nil || !regexp.MustCompile(`"wrong": ?[1-9]`).MatchString(stdout) { // of few samples the first profile may be wrong, too
		t.Errorf("mismatches: %v\n%s%s", err, stdout, stderr)
	}
	if stderr := run("--cached", profile+"x", "--mode", "2"); !strings.Contains(stderr, "the module starts without a cached profile") {
		t.Errorf("no profile:\n%s", stderr)
	}
	for _, flags := range []string{"--mode 0 --cached x", "--cached x", "--mode 2", "--store --mode 2 --exact", "--store-log use", "--store --mode 2 --store-log queue", "--scale 0.1"} {
		if code, _, stderr := runWith(append(append([]string{"run"}, strings.Fields(flags)...), path), nil); code != exitUsage {
			t.Errorf("%s: exit code %d\n%s", flags, code, stderr)
		}
	}
}
