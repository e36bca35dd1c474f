package main

import (
	"fmt"

	"github.com/ccmapd/ccmapd/scripts/compiler"
)

// Programs that nobody here wrote, from the module proxy.
const (
	gojqModule   = "github.com/itchyny/gojq/cmd/gojq@v0.12.17"
	fortioModule = "fortio.org/fortio@v1.63.0" // as in cmd/ccmapd/real_test.go
)

// query makes records, groups them by a key and sorts the groups by a sum, over
// and over.
const query = `[range(%d) | [range(50000) | {k: (. * 7919 %% 1000 | tostring), v: .}]
| group_by(.k) | map({key: .[0].k, n: length, s: (map(.v) | add)}) | sort_by(.s) | map(tojson | fromjson) | length] | add`

func gojqCommand(c config, rounds int) ([]string, error) {
	return []string{c.path("gojq"), "-n", fmt.Sprintf(query, rounds)}, nil
}

// compileCommand calls the compiler on a package that takes it some seconds.
func compileCommand(c config, _ int) ([]string, error) {
	return compiler.Command("net/http", c.path("importcfg"))
}
