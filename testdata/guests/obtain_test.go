package guests

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestFetchReplacesAChangedFile(t *testing.T) {
	testrun.Full(t, testrun.Package)
	dir := t.TempDir()
	path, err := Fetch(t.Context(), "sqlite", sqliteModule)
	if err != nil {
		testrun.Lacks(t, "%v", err)
	}
	t.Setenv(dirVariable, dir)
	if err := os.WriteFile(filepath.Join(dir, "sqlite.wasm"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	again, err := Fetch(t.Context(), "sqlite", sqliteModule)
	if err != nil {
		t.Fatal(err)
	}
	if again == path {
		t.Fatalf("%s ignored", dirVariable)
	}
	if err := sqliteModule.check(again); err != nil {
		t.Error(err)
	}
}
