package rewrite_test

import (
	"bytes"
	"context"
	"debug/dwarf"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// dwarfModules are wazero's own modules with DWARF: programs that trap.
var dwarfModules = []string{"tinygo", "zig", "zig-cc"}

func dwarfModule(tb testing.TB, compiler string) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(wazeroDir(tb), "internal", "testing", "dwarftestdata", "testdata", compiler, "main.wasm"))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func rewritten(tb testing.TB, binary []byte, o rewrite.Options) *rewrite.Module {
	tb.Helper()
	m, err := rewrite.Rewrite(binary, o)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

// TestTracesKeepTheirLines runs programs that trap. wazero's stack traces must show the
// same functions, files and lines, inlined calls included.
func TestTracesKeepTheirLines(t *testing.T) {
	for _, compiler := range dwarfModules {
		t.Run(compiler, func(t *testing.T) {
			t.Parallel()
			data := dwarfModule(t, compiler)
			plain := trap(t, data)
			if !strings.Contains(plain, "main.") {
				t.Fatalf("no lines in the original's trace:\n%s", plain)
			}
			if d := cmp.Diff(plain, trap(t, rewritten(t, data, exact).Binary)); d != "" {
				t.Errorf("trace, plain to rewritten:\n%s", d)
			}
			if d := cmp.Diff(withoutParameters(plain), withoutParameters(trap(t, rewritten(t, data, marked).Binary))); d != "" {
				t.Errorf("trace, plain to marked:\n%s", d)
			}
		})
	}
}

// parameters matches a function's parameters in a trace. They include a number that is a
// parameter.
var parameters = regexp.MustCompile(`(?m)^(\t[^\t(]+)\([a-z0-9,]*\)`)

func withoutParameters(trace string) string { return parameters.ReplaceAllString(trace, "$1()") }

// address matches the beginning of a source line in wazero's traces: its position in the
// code, which differs after the rewriting.
var address = regexp.MustCompile(`(?m)^\t\t(0x[0-9a-f]+:)? +`)

// trap runs a program to its trap.
func trap(t *testing.T, binary []byte) string {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	defer r.Close(ctx)
	wasi_snapshot_preview1.MustInstantiate(ctx, r)
	addHost(t, r)
	compiled, err := r.CompileModule(ctx, binary)
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.InstantiateModule(ctx, compiled, wazero.NewModuleConfig())
	if err == nil {
		t.Fatal("the program did not trap")
	}
	return address.ReplaceAllString(strings.Join(trace(err), "\n"), "\t\t")
}

// addHost gives a runtime host functions that do nothing.
func addHost(tb testing.TB, r wazero.Runtime) {
	tb.Helper()
	_, err := r.NewHostModuleBuilder(rewrite.HostModule).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.SampleFunction).
		NewFunctionBuilder().WithFunc(func(_, _, _ uint32) {}).Export(rewrite.CallFunction).
		NewFunctionBuilder().WithFunc(func(_, _ uint32) {}).Export(rewrite.PointFunction).
		Instantiate(context.Background())
	if err != nil {
		tb.Fatal(err)
	}
}

// TestLinesMove compares the lines of all copied instructions.
func TestLinesMove(t *testing.T) {
	for _, compiler := range dwarfModules {
		t.Run(compiler, func(t *testing.T) {
			t.Parallel()
			data := dwarfModule(t, compiler)
			m := rewritten(t, data, rewrite.Options{MultiValue: true})
			before, after := lines(t, data), lines(t, m.Binary)
			starts := bodyStarts(t, data)
			known := 0
			for offset := range uint64(len(m.Binary)) {
				f, position, ok := m.Original(offset)
				if !ok || !m.IsCopied(offset) {
					continue
				}
				want := before.at(starts[int(f)-m.Imported] + uint64(position))
				if want != "" {
					known++
				}
				if got := after.at(offset); got != want {
					t.Fatalf("offset %#x: %q, want %q", offset, got, want)
				}
			}
			if known == 0 {
				t.Error("no lines found")
			}
		})
	}
}

// lineRows are the rows of all line tables by address.
type lineRows []dwarf.LineEntry

func (l lineRows) at(address uint64) string {
	i := sort.Search(len(l), func(i int) bool { return l[i].Address > address })
	if i == 0 || l[i-1].EndSequence {
		return ""
	}
	return fmt.Sprintf("%s:%d:%d", l[i-1].File.Name, l[i-1].Line, l[i-1].Column)
}

func lines(t *testing.T, module []byte) (rows lineRows) {
	t.Helper()
	s := customSections(t, module)
	d, err := dwarf.New(s[".debug_abbrev"], nil, nil, s[".debug_info"], s[".debug_line"], nil, s[".debug_ranges"], s[".debug_str"])
	if err != nil {
		t.Fatal(err)
	}
	for r := d.Reader(); ; {
		unit, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		if unit == nil {
			break
		}
		if l, err := d.LineReader(unit); err == nil && l != nil && unit.Tag == dwarf.TagCompileUnit {
			rows = append(rows, rowsOf(t, l)...)
		}
		r.SkipChildren()
	}
	sort.SliceStable(rows, func(i, j int) bool { return rows[i].Address < rows[j].Address })
	return rows
}

func rowsOf(t *testing.T, l *dwarf.LineReader) (rows lineRows) {
	t.Helper()
	for {
		var row dwarf.LineEntry
		err := l.Next(&row)
		if errors.Is(err, io.EOF) {
			return rows
		}
		if err != nil {
			t.Fatal(err)
		}
		rows = append(rows, row)
	}
}

// TestModulesWithoutDWARFGetOffsets: wazero gives source offsets only for
// modules with DWARF, so every rewritten module must have it.
func TestModulesWithoutDWARFGetOffsets(t *testing.T) {
	t.Parallel()
	m := rewritten(t, fibGuest(), rewrite.Options{MultiValue: true})
	s := customSections(t, m.Binary)
	if _, err := dwarf.New(s[".debug_abbrev"], nil, nil, s[".debug_info"], nil, nil, nil, nil); err != nil {
		t.Error(err)
	}
	if bytes.Contains(m.Binary, []byte(".debug_line")) {
		t.Error("an empty section of lines")
	}
}
