package rewrite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

// wideModule has n exported functions that call themselves, of a type with params
// parameters, and a table of all.
func wideModule(n, params int) []byte {
	count := binary.AppendUvarint(nil, uint64(n))
	types := append(binary.AppendUvarint([]byte{1, 0x60}, uint64(params)), bytes.Repeat([]byte{i32}, params)...)
	exports, code := bytes.Clone(count), bytes.Clone(count)
	elements := append([]byte{1, 0, 0x41, 0, 0x0b}, count...)
	for i := range n {
		index := binary.AppendUvarint(nil, uint64(i))
		exports = append(append(append(append(exports, byte(len(index))), index...), 0), index...)
		elements = append(elements, index...)
		body := append(append([]byte{0, 0x00, 0x10}, index...), 0x0b)
		code = append(append(code, byte(len(body))), body...)
	}
	return build(
		section(1, append(types, 0)...),
		section(3, append(bytes.Clone(count), make([]byte, n)...)...),
		section(4, 1, 0x70, 0, 0),
		section(7, exports...),
		section(9, elements...),
		section(10, code...),
	)
}

// TestGrowthIsBounded: added code lists the functions' parameters, which the original's
// code need not do.
func TestGrowthIsBounded(t *testing.T) {
	t.Parallel()
	for _, o := range []rewrite.Options{quiet, marked, stubbed, exact} {
		for _, c := range []struct {
			n, params int
			refused   string
		}{
			{1000, 7, ""}, {1000, 16, ""}, {1, 1000, ""}, {1, 1001, "1001 parameters"}, {1000, 1000, "longer than"},
		} {
			module := wideModule(c.n, c.params)
			m, err := rewrite.Rewrite(module, o)
			switch {
			case c.refused != "":
				if err == nil || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%d functions of %d parameters: %v", c.n, c.params, err)
				}
			case err != nil || len(m.Binary) > 32*len(module):
				t.Errorf("%d functions of %d parameters: %v", c.n, c.params, err)
			}
		}
	}
}

// TestDispatchWithParameter: a jump would take an operand to the head, so it cannot go
// straight to a block.
func TestDispatchWithParameter(t *testing.T) {
	t.Parallel()
	body := "\x01\x01\x7f\x41\x03\x03\x00" + // loop with a parameter, 3 at first
		"\x02\x40\x02\x40\x20\x00\x0e\x01\x00\x01\x0b" +
		"\x41\x09\x41\x01\x21\x00\x0c\x01\x0b\x0b" + // on with 9, at block 1
		"\x0b"
	guest := build(
		section(1, 2, 0x60, 1, i32, 1, i32, 0x60, 0, 1, i32),
		section(3, 1, 1),
		section(7, 1, 1, 'f', 0, 0),
		section(10, append([]byte{1, byte(len(body))}, body...)...),
	)
	for _, module := range [][]byte{guest, rewritten(t, guest, quiet).Binary} {
		host := newHost(t, func(context.Context, api.Module, uint32, uint32) {})
		m, err := host.Instantiate(context.Background(), module)
		if err != nil {
			t.Fatal(err)
		}
		if results, err := m.ExportedFunction("f").Call(context.Background()); err != nil || results[0] != 9 {
			t.Errorf("f() = %v, %v", results, err)
		}
	}
}

// TestReferencesOutOfTables: a call through another module has its right number, even if
// the reference comes from table.get.
func TestReferencesOutOfTables(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	var numbers []uint32
	r := newHost(t, func(_ context.Context, _ api.Module, reason, number uint32) {
		if reason == rewrite.ReasonEntry {
			numbers = append(numbers, number&rewrite.AllNumbers)
		}
	})
	twice := "\x00\x41\x00\x20\x00\x26\x00\x41\x00\x11\x00\x00\x41\x00\x11\x00\x00\x0b" // calls its argument twice
	other := build(
		section(1, 2, 0x60, 0, 0, 0x60, 1, 0x70, 0),
		section(3, 1, 1),
		section(4, 1, 0x70, 0, 1),
		section(7, append([]byte{1}, "\x05twice\x00\x00"...)...),
		section(10, append([]byte{1, byte(len(twice))}, twice...)...),
	)
	if _, err := r.InstantiateWithConfig(ctx, other, wazero.NewModuleConfig().WithName("other")); err != nil {
		t.Fatal(err)
	}
	guest := build(
		section(1, 2, 0x60, 0, 0, 0x60, 1, 0x70, 0),
		section(2, append([]byte{1}, "\x05other\x05twice\x00\x01"...)...),
		section(3, 3, 0, 0, 0),
		section(4, 1, 0x70, 0, 2),
		section(7, 1, 1, 'f', 0, 1),
		section(9, 1, 0, 0x41, 0, 0x0b, 2, 2, 3),
		section(10, append([]byte{3}, "\x08\x00\x41\x00\x25\x00\x10\x00\x0b"+ // f calls it with function 2,
			"\x04\x00\x10\x03\x0b"+ // which calls function 3,
			"\x09\x00\x03\x40\x41\x00\x0d\x00\x0b\x0b"...)...), // which loops
	)
	m, err := r.Instantiate(ctx, rewritten(t, guest, marked).Binary)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.ExportedFunction("f").Call(ctx); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]uint32{1, 2, 3, 2, 3}, numbers); d != "" {
		t.Errorf("numbers, want to got:\n%s", d)
	}
}

// TestLocalsMove: after a number that is a parameter, locals keep their values, with any
// length of their old and new indices.
func TestLocalsMove(t *testing.T) {
	t.Parallel()
	const most = 50_000
	var set, check []byte
	for i, index := range []uint64{0, 1, 2, 126, 127, 128, 255, 256, 16382, 16383, 16384, 49_998, most - 1} {
		for extra := range 2 { // the shortest index, and a longer one
			at := binary.AppendUvarint(nil, index)
			if extra > 0 {
				at[len(at)-1] |= 0x80
				at = append(at, 0)
			}
			value := []byte{0x41, byte(i)}
			set = append(append(append(set, value...), 0x21), at...)
			check = append(append(append(check, 0x20), at...), value...)
			check = append(check, 0x47, 0x04, 0x40, 0x00, 0x0b) // other: trap
		}
	}
	body := append(binary.AppendUvarint([]byte{1}, most-2), i32)
	body = append(append(append(body, set...), check...), 0x10, 2, 0x0b)
	functions := append([]byte{3}, "\x08\x00\x41\x00\x41\x00\x10\x01\x0b"...)
	functions = append(append(binary.AppendUvarint(functions, uint64(len(body))), body...), 2, 0, 0x0b)
	guest := build(
		section(1, 2, 0x60, 0, 0, 0x60, 2, i32, i32, 0),
		section(3, 3, 0, 1, 0),
		section(7, 1, 1, 'f', 0, 0),
		section(10, functions...),
	)
	for _, o := range []rewrite.Options{quiet, marked, stubbed} {
		host := newHost(t, func(context.Context, api.Module, uint32, uint32) {})
		m, err := host.Instantiate(context.Background(), rewritten(t, guest, o).Binary)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.ExportedFunction("f").Call(context.Background()); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
