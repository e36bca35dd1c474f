package gosym

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOtherVersions opens executables that other Go versions have built: the
// files that the pattern in GOSYM_EXECUTABLES matches. To make one, in the
// folder testdata/target:
//
//	GOTOOLCHAIN=go1.21.0 CGO_ENABLED=0 go build -o /tmp/versions/go1.21.0 main.go
//
// Last run with 1.20, 1.21.0, 1.22.0, 1.23.0, 1.24.0 and 1.25.0, each also with
// -ldflags="-s -w".
func TestOtherVersions(t *testing.T) {
	files, err := filepath.Glob(os.Getenv("GOSYM_EXECUTABLES"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("GOSYM_EXECUTABLES matches no file")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { checkVersion(t, path) })
	}
}

func checkVersion(t *testing.T, path string) {
	table, err := OpenFile(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	layout, ok := table.Layout()
	if debug, err := layoutFromDWARF(table.images[0].file); err == nil && (!ok || debug != layout) {
		t.Errorf("layout %+v, by DWARF %+v", layout, debug)
	}
	m, inlined := table.modules[0], 0
	for i := range m.nfunc {
		r, _ := m.record(i)
		frames := m.expand(r, (r.entry+r.end)/2, nil)
		for _, f := range frames {
			if f.Name == "" {
				t.Errorf("function at %#x without a name", r.entry)
			}
		}
		inlined += len(frames) - 1
	}
	t.Logf("%s: %d functions, %d inlined calls seen", table.GoVersion(), m.nfunc, inlined)
	if inlined == 0 {
		t.Error("nothing was inlined")
	}
}
