package gosym

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestGoVersions opens executables that all supported Go versions have built: the
// files that the pattern in CCMAPD_GO_VERSIONS matches. TestGoVersions of package
// perf says how to make them, and samples them.
func TestGoVersions(t *testing.T) {
	files, err := filepath.Glob(os.Getenv("CCMAPD_GO_VERSIONS"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) == 0 {
		t.Skip("CCMAPD_GO_VERSIONS matches no file")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { checkVersion(t, path) })
	}
}

func checkVersion(t *testing.T, path string) {
	table, err := OpenFile(t.Context(), path, Options{})
	if errors.Is(err, ErrNotReady) {
		t.Skip("position-independent: there are addresses when it runs")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if minor := minorVersion(table.GoVersion()); minor < oldestMinor || minor > newestMinor {
		t.Errorf("the layouts of %q are not known", table.GoVersion())
	}
	layout, ok := table.layout, table.hasLayout
	layout.CgoDepth, layout.LabelsAreMap = 0, false // no field, and a type
	if debug, err := layoutFromDWARF(testBudget(), table.images[0].file); err == nil && (!ok || debug != layout) {
		t.Errorf("layout %+v, by DWARF %+v", layout, debug)
	}
	m, inlined := table.modules[0], 0
	for i := range m.nfunc {
		r, _ := m.record(i)
		frames := m.expand(testBudget(), r, (r.entry+r.end)/2, nil)
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
