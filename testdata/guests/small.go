package guests

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

//go:generate sh -c "for f in small/*.wat; do wat2wasm --debug-names --enable-tail-call ${DOLLAR}f -o ${DOLLAR}{f%.wat}.wasm; done"

//go:embed small/*.wasm
var small embed.FS

// Small returns the binary of the hand-written guest testdata/guests/small/NAME.wat,
// whose first line says what it does and exports. It panics if there is none: the
// names are constants of the tests.
func Small(name string) []byte {
	binary, err := small.ReadFile("small/" + name + ".wasm")
	if err != nil {
		panic(fmt.Sprintf("guests: no small guest %q, of %q", name, SmallNames()))
	}
	return binary
}

// SmallNames returns the names of all hand-written guests, sorted.
func SmallNames() []string {
	files, err := fs.Glob(small, "small/*.wasm")
	if err != nil {
		panic(err) // the pattern is well formed
	}
	for i, file := range files {
		files[i] = strings.TrimSuffix(path.Base(file), ".wasm")
	}
	return files
}
