package guesttest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// runPlain runs a guest on plain wazero.
func runPlain(t *testing.T, g guests.Guest, binary []byte) string {
	t.Helper()
	ctx := t.Context()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().WithCompilationCache(compiledBefore(t)))
	t.Cleanup(func() { r.Close(context.Background()) })
	compiled, err := r.CompileModule(ctx, binary)
	if err != nil {
		t.Fatal(err)
	}
	if got := importsWASIAlone(compiled.ImportedFunctions()); got != g.Command() {
		t.Errorf("imports WASI alone: %t, is a command: %t", got, g.Command())
	}
	if err := guests.Host(ctx, r, compiled); err != nil {
		t.Fatal(err)
	}
	output, err := g.Run(ctx, r, compiled)
	if err != nil {
		t.Fatal(err)
	}
	return output
}

// compiledBefore keeps what wazero compiles beside the guests: esbuild takes 5 s.
func compiledBefore(t *testing.T) wazero.CompilationCache {
	t.Helper()
	dir, err := guests.Dir()
	if err != nil {
		t.Fatal(err)
	}
	cache, err := wazero.NewCompilationCacheWithDir(filepath.Join(dir, "compiled"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cache.Close(context.Background()) })
	return cache
}

func TestRealGuestsDoWhatIsKnown(t *testing.T) {
	t.Parallel()
	for _, g := range guests.Real(2) {
		t.Run(g.Name, func(t *testing.T) {
			t.Parallel()
			if g.Name == "esbuild" && testing.Short() {
				t.Skip("compiles for 5 s")
			}
			if diff := cmp.Diff(g.Want, runPlain(t, g, Module(t, g))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func importsWASIAlone(imports []api.FunctionDefinition) bool {
	for _, f := range imports {
		if module, _, _ := f.Import(); module != "wasi_snapshot_preview1" {
			return false
		}
	}
	return true
}

func TestStrippedCDoesTheSame(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Clang)
	g := guests.Parse(1)
	path, err := guests.C(t.Context(), "parse", false)
	binary, failed := os.ReadFile(path)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(binary), ".debug_line") {
		t.Error("the stripped module has DWARF")
	}
	if diff := cmp.Diff(g.Want, runPlain(t, g, binary)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
