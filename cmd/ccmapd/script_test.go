package main

import (
	"flag"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

var update = flag.Bool("update", false, "write what the commands print into the golden files of testdata/script")

// TestMain lets scripts and tests run ccmapd, which is this test binary under
// another name.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){
		"ccmapd": main,
		fakeName: mainWith(fakeEngine(false)),
		deafName: mainWith(deafEngine()),
		slowName: mainWith(slowEngine()),
	})
}

// TestScript runs the scripts of testdata/script. Their golden files are made
// again by: go test ./cmd/ccmapd -run TestScript -update
func TestScript(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:           "testdata/script",
		UpdateScripts: *update,
	})
}
