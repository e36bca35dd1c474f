package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// TestModules runs the scripts of testdata/modules, which run WebAssembly modules.
// Nothing need be permitted for that.
func TestModules(t *testing.T) {
	t.Parallel()
	eval, err := guests.Go(t.Context(), "eval")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/modules",
		Setup: func(e *testscript.Env) error {
			err := shareGoCaches(e)
			e.Setenv("EVAL", eval)
			e.Setenv("SMALL", e.Getenv("MODULE")+"/testdata/guests/small")
			return err
		},
	})
}
