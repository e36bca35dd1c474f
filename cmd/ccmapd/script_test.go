package main

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

var update = flag.Bool("update", false, "write what the commands print into the golden files of testdata/script")

// TestMain lets scripts and tests run ccmapd, which is this test binary under
// another name.
func TestMain(m *testing.M) {
	testscript.Main(testrun.Guard(m), map[string]func(){
		"ccmapd": main,
		fakeName: mainWith(fakeEngine(false)),
		waitName: mainWith(fakeEngine(true)),
		deafName: mainWith(deafEngine()),
		slowName: mainWith(slowEngine()),
		lessName: mainWithLess,

		servesName: mainServes,
		loneName:   mainWith(loneEngine()),
	})
}

// TestScript runs the scripts of testdata/script. Their golden files are made
// again by: go test ./cmd/ccmapd -run TestScript -update
func TestScript(t *testing.T) {
	t.Parallel()
	recordings, err := filepath.Abs("../../export/testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
		Setup: func(e *testscript.Env) error {
			e.Setenv("RECORDINGS", recordings)
			e.Setenv(testrun.MarkEnv, os.Getenv(testrun.MarkEnv))
			return nil
		},
	})
}

// TestModules runs the scripts of testdata/modules, which run WebAssembly modules.
func TestModules(t *testing.T) {
	t.Parallel()
	runModuleScripts(t, "testdata/modules")
}

// TestModulesInFull runs those that compile a guest of their own, or a large one again and again.
func TestModulesInFull(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes)
	runModuleScripts(t, "testdata/modules/full")
}

func runModuleScripts(t *testing.T, folder string) {
	eval, err := guests.Go(t.Context(), "eval")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: folder,
		Setup: func(e *testscript.Env) error {
			err := shareGoCaches(e)
			e.Setenv("EVAL", eval)
			e.Setenv("SMALL", e.Getenv("MODULE")+"/testdata/guests/small")
			return err
		},
	})
}
