package rewrite_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
	"github.com/google/go-cmp/cmp"
	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
)

// code is a module of functions without parameters and results, from their bodies.
func code(bodies ...string) []byte {
	types := append([]byte{byte(len(bodies))}, make([]byte, len(bodies))...)
	content := []byte{byte(len(bodies))}
	for _, b := range bodies {
		content = append(append(content, byte(len(b))), b...)
	}
	return build(section(1, 1, 0x60, 0, 0), section(3, types...), section(10, content...))
}

func TestKinds(t *testing.T) {
	t.Parallel()
	m := rewritten(t, code(
		"\x00\x01\x0b",                                 // nop
		"\x00\x03\x40\x41\x00\x0d\x00\x0b\x0b",         // loop
		"\x00\x10\x00\x0b",                             // call of the bare one
		"\x00\x10\x01\x0b",                             // call of a polled one
		"\x00\x12\x00\x0b",                             // tail call of the bare one
		"\x00\x10\x03\x03\x40\x41\x00\x0d\x00\x0b\x0b", // loop after a call
		"\x00\x03\x40\x0b\x0b",                         // loop without a branch back
		"\x01\x01\x7f\x03\x40\x02\x40\x02\x40\x20\x00\x0e\x01\x00\x01\x0b\x41\x00\x0d\x00\x41\x01\x21\x00\x0c\x01\x0b\x0b\x0b", // a dispatch that never goes back
	), rewrite.Options{MultiValue: true})
	want := []rewrite.Kind{rewrite.Bare, rewrite.Polled, rewrite.Polled, rewrite.Polled, rewrite.Polled, rewrite.Polled, rewrite.Bare, rewrite.Bare}
	if d := cmp.Diff(want, m.Functions); d != "" {
		t.Errorf("kinds, want to got:\n%s", d)
	}
}

// TestEntries: fib calls itself, so it is exported through a thunk of its name.
func TestEntries(t *testing.T) {
	t.Parallel()
	m := rewritten(t, fibGuest(), rewrite.Options{MultiValue: true})
	if d := cmp.Diff(map[uint32]uint32{3: 0}, m.Entries); d != "" {
		t.Errorf("entries, want to got:\n%s", d)
	}
	for index, want := range []struct {
		function uint32
		ok       bool
	}{{0, false}, {0, false}, {0, true}, {0, false}} {
		if f, ok := m.Function(uint32(index)); f != want.function || ok != want.ok {
			t.Errorf("function %d: %d, %v", index, f, ok)
		}
	}
}

func TestSitesAndReasons(t *testing.T) {
	t.Parallel()
	m := rewritten(t, build(
		section(1, 2, 0x60, 0, 0, 0x60, 1, i32, 0),
		section(3, 1, 0),
		section(4, 2, 0x70, 0, 1, 0x70, 0, 1),
		section(10, 1, 9, 0x00, 0x41, 5, 0x41, 0, 0x11, 1, 1, 0x0b),
	), rewrite.Options{MultiValue: true, Calls: true})
	if d := cmp.Diff([]rewrite.Site{{Function: 0, Table: 1, Offset: 5, Params: []byte{i32}, Results: []byte{}}}, m.Sites); d != "" {
		t.Errorf("sites, want to got:\n%s", d)
	}
	for k := range uint32(3) {
		for _, before := range []bool{true, false} {
			reason := rewrite.AfterImport(k)
			if before {
				reason = rewrite.BeforeImport(k)
			}
			if gotK, gotBefore, ok := rewrite.Import(reason); gotK != k || gotBefore != before || !ok {
				t.Errorf("reason %d: import %d, before %v, %v", reason, gotK, gotBefore, ok)
			}
		}
	}
	if _, _, ok := rewrite.Import(rewrite.ReasonLoop); ok {
		t.Error("a loop is no import")
	}
}

// TestOriginal finds every copied instruction at its own offset, and polls at the
// instruction after them.
func TestOriginal(t *testing.T) {
	t.Parallel()
	plain := fibGuest()
	m := rewritten(t, plain, rewrite.Options{MultiValue: true, Marks: true})
	body, moved := bodyStarts(t, plain)[0], bodyStarts(t, m.Binary)[0]
	var original, copied []byte
	sectionsOf(t, plain, func(id byte, content []byte) { original = content })
	sectionsOf(t, m.Binary, func(id byte, content []byte) {
		if id == 10 {
			copied = content
		}
	})
	if f, position, ok := m.Original(moved + 4); f != 0 || position != 1 || !ok {
		t.Errorf("the entry's poll stands for function %d, position %d, %v", f, position, ok)
	}
	found := 0
	for offset := moved; offset < uint64(len(copied)); offset++ {
		_, position, ok := m.Original(offset)
		if ok && m.IsCopied(offset) && position > 0 {
			found++
			if was, is := original[body+uint64(position)], copied[offset]; was != is && was != 0 { // call 0 is call 2
				t.Errorf("offset %d: byte %#x was %#x at %d", offset, is, was, position)
			}
		}
	}
	if want := len(original) - int(body) - 1; found != want {
		t.Errorf("%d bytes were copied, want %d", found, want)
	}
}

// TestExactCountsInstructions compares with fib's code: 5 instructions for a leaf, 13 for
// an inner call.
func TestExactCountsInstructions(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	r := wazero.NewRuntime(ctx)
	defer r.Close(ctx)
	addHost(t, r)
	m, err := r.Instantiate(ctx, rewritten(t, fibGuest(), rewrite.Options{MultiValue: true, Exact: true}).Binary)
	if err != nil {
		t.Fatal(err)
	}
	m.ExportedGlobal(rewrite.MarkGlobal).(api.MutableGlobal).Set(0)
	results, err := m.ExportedFunction("fib").Call(ctx, 15)
	if err != nil || results[0] != 610 {
		t.Fatalf("fib(15) = %v, %v", results, err)
	}
	var count func(n int) uint64
	count = func(n int) uint64 {
		if n < 2 {
			return 5
		}
		return 13 + count(n-1) + count(n-2)
	}
	if got := m.ExportedGlobal(rewrite.ExecutedGlobal).Get(); got != count(15) {
		t.Errorf("%d instructions executed, want %d", got, count(15))
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	again := rewritten(t, fibGuest(), rewrite.Options{MultiValue: true}).Binary
	for _, c := range []struct {
		name   string
		module []byte
		reason string
	}{
		{"empty", nil, "not a WebAssembly"},
		{"rewritten already", again, "rewritten already"},
		{"cut", fibGuest()[:40], "exceeds"},
		{"order", build(section(3, 0), section(1, 0)), "out of order"},
		{"tags", build(section(13, 0)), "section 13"},
		{"struct type", build(section(1, 1, 0x5f, 0, 0)), "type form"},
		{"try_table", code("\x00\x1f\x40\x00\x0b\x0b"), "exception handling"},
		{"call_ref", code("\x00\x14\x00\x0b"), "typed function references"},
		{"unknown opcode", code("\x00\xc7\x0b"), "unknown opcode"},
		{"long vector opcode", code("\x00\xfd\x8c\x00\x0b"), "unknown opcode"},
		{"memory index", code("\x00\x28\x42\x00\x00\x0b"), "several memories"},
		{"function", code("\x00\x10\x01\x0b"), "function 1 of 1"},
		{"global", code("\x00\x23\x00\x0b"), "global 0 of 0"},
		{"local", code("\x00\x20\x00\x0b"), "local beyond"},
		{"label", code("\x00\x0c\x01\x0b"), "label 1 of 1"},
		{"element segment", code("\x00\xfc\x0d\x00\x0b"), "element segment 0 of 0"},
		{"locals", code("\x01\xd1\x86\x03\x7f\x0b"), "50001 locals"},
		{"no end", code("\x00\x01"), "unexpected end"},
		{"behind the end", code("\x00\x0b\x01"), "too many"},
		{"tables", build(section(4, 0xff, 0xff, 0xff, 0x80, 0x07)), "exceeds"},
		{"table", build(section(4, 1, 0x70, 0, 0x80, 0x80, 0x80, 0x08)), "16777216 elements"},
		{"count", build(section(1, 0xff, 0xff, 0xff, 0xff, 0x0f)), "exceeds"},
		{"two sections of names", build(section(0, []byte("\x04name")...), section(0, []byte("\x04name")...)), "second name section"},
		{"long integer", build(section(1, 0x80, 0x80, 0x80, 0x80, 0x80, 0)), "32 bits"},
	} {
		_, err := rewrite.Rewrite(c.module, rewrite.Options{MultiValue: true})
		var refused *rewrite.RefusedError
		if !errors.As(err, &refused) || !errors.Is(err, rewrite.ErrRefused) {
			t.Errorf("%s: %v is no refusal", c.name, err)
			continue
		}
		if !strings.Contains(refused.Reason, c.reason) || refused.Offset > len(c.module) {
			t.Errorf("%s: %v, want %q", c.name, err, c.reason)
		}
	}
}

// TestNames: a thunk has its function's name, and the local after a function's number
// keeps its name.
func TestNames(t *testing.T) {
	t.Parallel()
	functions := "\x00\x01f\x01\x01g"
	locals := "\x00\x01\x00\x01x" + "\x01\x02\x00\x01y\x01\x01z"
	names := "\x04name" + "\x01\x07\x02" + functions + "\x02\x0e\x02" + locals
	guest := build(
		section(1, 2, 0x60, 0, 0, 0x60, 1, i32, 0),
		section(3, 2, 0, 1),
		section(7, 1, 1, 'f', 0, 0),
		// f calls g, and g calls itself.
		section(10, append([]byte{2}, "\x08\x01\x01\x7f\x41\x00\x10\x01\x0b"+"\x08\x01\x01\x7f\x20\x01\x10\x01\x0b"...)...),
		section(0, []byte(names)...),
	)
	m := rewritten(t, guest, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true})
	want := "\x01\x34\x06\x00\x0dccmapd.sample\x01\x0bccmapd.call\x02\x01f\x03\x01g\x04\x0cccmapd.enter\x05\x01g" +
		"\x02\x0e\x02" + "\x02\x01\x00\x01x" + "\x03\x02\x00\x01y\x02\x01z"
	if d := cmp.Diff(want, string(customSections(t, m.Binary)["name"])); d != "" {
		t.Errorf("names, want to got:\n%s", d)
	}
}

// TestNamesChanged: a section of names with a changed byte is refused if wazero refuses it,
// and only then. Wazero reads beyond the length of a subsection that it knows.
func TestNamesChanged(t *testing.T) {
	t.Parallel()
	names := "\x04name" + "\x00\x02\x01m" + "\x01\x07\x02" + "\x00\x01f\x01\x01g" + "\x02\x07\x01" + "\x00\x02\x00\x01x\x01\x00" +
		"\x03\x03abc" + "\x04\x00" + "\x01\x04\x01\x09\x01h"
	for _, behind := range []string{"", "\x00\x03\x01xy"} {
		taken, refused := 0, 0
		for i := 5; i < len(names); i++ {
			for b := range 256 {
				changed := []byte(names)
				changed[i] = byte(b)
				guest := append(build(
					section(1, 1, 0x60, 0, 0),
					section(3, 2, 0, 0),
					section(10, 2, 2, 0, 0x0b, 2, 0, 0x0b),
					section(0, changed...),
				), behind...)
				m, err := rewrite.Rewrite(guest, rewrite.Options{MultiValue: true, Marks: true})
				if plain := compiles(guest); (err == nil && compiles(m.Binary)) != plain {
					t.Errorf("byte %d is %#x, %q behind: wazero takes it: %t; rewriting: %v", i, b, behind, plain, err)
				} else if plain {
					taken++
				} else {
					refused++
				}
			}
		}
		if taken == 0 || refused == 0 {
			t.Errorf("%q behind: %d taken, %d refused", behind, taken, refused)
		}
	}
}

// TestManyNames: of very many subsections of function names the last one counts, and the
// others cost no more than their bytes.
func TestManyNames(t *testing.T) {
	t.Parallel()
	const functions = 1 << 16
	count := binary.AppendUvarint(nil, functions)
	names := []byte("\x04name\x01\x04\x01\x01\x01g")
	for range functions {
		names = append(names, "\x01\x01\x00"...)
	}
	guest := build(
		section(1, 1, 0x60, 0, 0),
		section(3, append(slices.Clone(count), make([]byte, functions)...)...),
		section(10, append(slices.Clone(count), bytes.Repeat([]byte{2, 0, 0x0b}, functions)...)...),
		section(0, append(names, "\x01\x04\x01\x02\x01h"...)...),
	)
	m, err := rewrite.Rewrite(guest, rewrite.Options{MultiValue: true, Marks: true})
	if err != nil {
		t.Fatal(err)
	}
	got := customSections(t, m.Binary)["name"]
	if !bytes.Contains(got, []byte("\x01h")) || bytes.Contains(got, []byte("\x01g")) || !bytes.Contains(got, []byte("$65535")) {
		t.Error("not the last names of functions")
	}
}

// compiles reports whether wazero takes a module.
func compiles(module []byte) bool {
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter().WithCoreFeatures(api.CoreFeaturesV2))
	defer r.Close(ctx)
	_, err := r.CompileModule(ctx, module)
	return err == nil
}

// TestEmptyCustomSection: wazero v1.12.0 refuses an empty custom section at the end of a
// module, and so does the rewriter. It puts sections after it, so that wazero would not.
func TestEmptyCustomSection(t *testing.T) {
	t.Parallel()
	for customs, want := range map[string]bool{
		"\x00\x02\x01x":                        false,
		"\x00\x01\x00":                         false,
		"\x00\x02\x01x\x00\x03\x01yz":          true,
		"\x00\x03\x01xy":                       true,
		"\x00\x05\x04name":                     true,
		"\x00\x02\x01x\x00\x05\x04name":        true,
		"\x00\x0c\x0b.debug_line":              false,
		"\x00\x0c\x0b.debug_line\x00\x02\x01y": false,
	} {
		guest := append(code("\x00\x0b"), customs...)
		_, err := rewrite.Rewrite(guest, rewrite.Options{MultiValue: true, Marks: true})
		if plain := compiles(guest); plain != want || (err == nil) != want {
			t.Errorf("%q: wazero takes it: %t, rewriting: %v, want %t", customs, plain, err, want)
		}
	}
}
