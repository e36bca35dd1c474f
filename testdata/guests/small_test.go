package guests

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// instantiate runs a small guest's start function, not its _start.
func instantiate(t *testing.T, name string) api.Module {
	t.Helper()
	ctx := t.Context()
	runtime := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfig().
		WithCoreFeatures(api.CoreFeaturesV2|experimental.CoreFeaturesTailCall).
		WithCloseOnContextDone(true))
	t.Cleanup(func() { runtime.Close(context.Background()) })
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	_, err := runtime.NewHostModuleBuilder("env").NewFunctionBuilder().
		WithFunc(func(ctx context.Context, guest api.Module, n int32) {
			if _, err := guest.ExportedFunction("reenter").Call(ctx, uint64(n)); err != nil {
				panic(err)
			}
		}).Export("callback").Instantiate(ctx)
	if err != nil {
		t.Fatal(err)
	}
	module, err := runtime.InstantiateWithConfig(ctx, Small(name), wazero.NewModuleConfig().WithStartFunctions())
	if err != nil {
		t.Fatal(err)
	}
	return module
}

func TestSmallResults(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		guest, export string
		args, want    []uint64
	}{
		{"fib", "fib", []uint64{20}, []uint64{6765}},
		{"matrix", "run", []uint64{8, 3}, []uint64{28*28 + 8*140}},
		{"matrix", "run", []uint64{64, 1}, []uint64{2016*2016 + 64*85344}},
		{"mutual", "even", []uint64{101}, []uint64{0}},
		{"mutual", "odd", []uint64{101}, []uint64{1}},
		{"indirect", "run", []uint64{8}, []uint64{0 + 1 + 4 + 9 + 3*16 + 3*25 + 36/2 + 49}},
		{"traps", "fine", nil, []uint64{1}},
		{"callback", "run", []uint64{4}, []uint64{5}},
		{"start", "value", nil, []uint64{5050}},
		{"multivalue", "divmod", []uint64{17, 5}, []uint64{3, 2}},
		{"multivalue", "divmod", []uint64{17, 0}, []uint64{1<<32 - 1, 17}},
		{"multivalue", "collatz", []uint64{27}, []uint64{111, 9232}},
		{"brtable", "classify", []uint64{0}, []uint64{10}},
		{"brtable", "classify", []uint64{1}, []uint64{20}},
		{"brtable", "classify", []uint64{2}, []uint64{30}},
		{"brtable", "classify", []uint64{9}, []uint64{40}},
		{"brtable", "search", []uint64{50}, []uint64{64}},
		{"brtable", "classify_all", []uint64{8}, []uint64{200}},
		{"tailcalls", "even", []uint64{1_000_001}, []uint64{0}},
		{"tailcalls", "sum", []uint64{1_000_000}, []uint64{500000500000}},
	} {
		t.Run(c.guest+"/"+c.export, func(t *testing.T) {
			got, err := instantiate(t, c.guest).ExportedFunction(c.export).Call(t.Context(), c.args...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%v: -want +got\n%s", c.args, diff)
			}
		})
	}
}

func TestSmallTraps(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ guest, export, want string }{
		{"traps", "unreachable", "unreachable"},
		{"traps", "divide_by_zero", "integer divide by zero"},
		{"traps", "overflow", "integer overflow"},
		{"traps", "conversion", "invalid conversion to integer"},
		{"traps", "memory_load", "out of bounds memory access"},
		{"traps", "memory_fill", "out of bounds memory access"},
		{"traps", "table_bounds", "invalid table access"},
		{"traps", "type_mismatch", "indirect call type mismatch"},
		{"traps", "null_entry", "invalid table access"},
		{"descent", "descend", "stack overflow"},
		{"hoard", "hoard", "unreachable"},
	} {
		t.Run(c.export, func(t *testing.T) {
			_, err := instantiate(t, c.guest).ExportedFunction(c.export).Call(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestSpinEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := instantiate(t, "spin").ExportedFunction("spin").Call(ctx)
	if exit := new(sys.ExitError); !errors.As(err, &exit) || exit.ExitCode() != sys.ExitCodeDeadlineExceeded {
		t.Errorf("got %v, want the deadline", err)
	}
}

func TestExitFromDepth(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		export string
		args   []uint64
		want   uint32
	}{
		{"_start", nil, 7},
		{"exit", []uint64{1000, 3}, 3},
	} {
		_, err := instantiate(t, "exit").ExportedFunction(c.export).Call(t.Context(), c.args...)
		if exit := new(sys.ExitError); !errors.As(err, &exit) || exit.ExitCode() != c.want {
			t.Errorf("%s: got %v, want exit code %d", c.export, err, c.want)
		}
	}
}

func TestHelloPrintsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	runtime := wazero.NewRuntime(ctx)
	defer runtime.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, runtime)
	var out bytes.Buffer
	_, err := runtime.InstantiateWithConfig(ctx, Small("hello"), wazero.NewModuleConfig().
		WithArgs("hello", "one").WithEnv("KEY", "value").
		WithStdin(strings.NewReader("some input\n")).WithStdout(&out))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("hello\none\nKEY=value\nstdin:\nsome input\n", out.String()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// TestSmallBinariesAreCurrent remakes every binary from its text.
func TestSmallBinariesAreCurrent(t *testing.T) {
	t.Parallel()
	testrun.Full(t, testrun.Wabt)
	wat2wasm, err := exec.LookPath("wat2wasm")
	if err != nil {
		testrun.Lacks(t, "no wat2wasm: install wabt")
	}
	for _, name := range SmallNames() {
		made := filepath.Join(t.TempDir(), name+".wasm")
		command := exec.CommandContext(t.Context(), wat2wasm, "--debug-names", "--enable-tail-call", "small/"+name+".wat", "-o", made)
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, output)
		}
		got, err := os.ReadFile(made)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, Small(name)) {
			t.Errorf("%s.wasm is not what wat2wasm makes of %[1]s.wat: go generate ./testdata/guests", name)
		}
	}
}
