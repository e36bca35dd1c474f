package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// TestServeScripts runs the scripts of testdata/serve: operators' commands against a daemon that samples a program.
// Each script has a program of its own, $PROGRAM, and a daemon of its own. Further commands of these scripts:
//
//	fill FILE            replaces $NAME in a file by the variable of that name
//	await REGEXP CMD…    runs a command until it prints a line that fits
func TestServeScripts(t *testing.T) {
	t.Parallel()
	needEngine(t)
	ccmapd, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	cache, err := exec.Command("go", "env", "GOCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/serve",
		Setup: func(e *testscript.Env) error {
			e.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
			e.Setenv("PROGRAM", programtest.Copy(t, ccmapd, "ccmapd"))
			e.Setenv("CCMAPD_SOCKET", filepath.Join(e.WorkDir, "s"))
			e.Setenv(testrun.MarkEnv, os.Getenv(testrun.MarkEnv))
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"fill": fillFile, "await": awaitLine},
	})
}

func fillFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: fill FILE")
	}
	text := os.Expand(ts.ReadFile(args[0]), ts.Getenv)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(text), 0o600))
}

func awaitLine(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: await REGEXP COMMAND [ARG…]")
	}
	wanted, err := regexp.Compile("(?m)" + args[0])
	ts.Check(err)
	for deadline := time.Now().Add(10 * time.Minute); time.Now().Before(deadline); time.Sleep(250 * time.Millisecond) { // a question is a process
		// A failure is that of a daemon or a program that is not there yet.
		_ = ts.Exec(args[1], args[2:]...)
		if wanted.MatchString(ts.ReadFile("stdout")) {
			return
		}
	}
	ts.Fatalf("%s is awaited in vain", args[0])
}
