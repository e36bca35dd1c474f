package gocover

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// allowLiteral lets cmp see into functions.
var allowLiteral = cmp.AllowUnexported(Function{})

// small is a program with all kinds of names.
func small(mode Mode) *Program {
	blocks := func(n int) []Block {
		list := make([]Block, n)
		for i := range list {
			line := uint32(10*n + i)
			list[i] = Block{Start: Position{line, 1}, End: Position{line, 300}, Statements: uint32(i)}
		}
		return list
	}
	return &Program{Hash: [16]byte{1, 2, 15: 3}, Mode: mode, Packages: []Package{
		{Path: "example.com/a", Name: "main", Module: "example.com", Functions: []Function{
			{Name: "main", File: "example.com/a/main.go", Line: 30, Blocks: blocks(3)},
			{Name: "*T.Method", File: "example.com/a/main.go", Line: 10, Blocks: blocks(1)},
			{Name: "func.L7.C9", File: "example.com/a/main.go", Line: 20, Blocks: blocks(2), literal: true},
		}},
		{Path: "b", Name: "b"},
		{Path: "c", Name: "c", Functions: []Function{{Name: "empty", File: "c/c.go", Blocks: []Block{}}}},
	}}
}

func decodeSmall(t testing.TB, mode Mode) *Program {
	t.Helper()
	p, err := readWhole(encodeMeta(small(mode)))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// readWhole decodes meta-data without a limit of memory.
func readWhole(b []byte) (*Program, error) { return readMetaIn(b, &memory{limit: math.MaxInt64}) }

func TestReadMeta(t *testing.T) {
	t.Parallel()
	want := small(ModeAtomic)
	want.Packages[0].Functions[1].Name, want.Packages[0].Functions[1].Receiver = "(*T).Method", "*T"
	want.Packages[0].Functions[2].Name = "init.func1"
	want.Packages[1].Functions = []Function{}
	if diff := cmp.Diff(want, decodeSmall(t, ModeAtomic), allowLiteral); diff != "" {
		t.Errorf("program (-want +got):\n%s", diff)
	}
}

// TestAddIsASum: counts add up in any encoding and any order of runs.
func TestAddIsASum(t *testing.T) {
	t.Parallel()
	run := rapid.SliceOfN(rapid.Uint32(), 6, 6)
	rapid.Check(t, func(t *rapid.T) {
		mode := rapid.SampledFrom([]Mode{ModeSet, ModeCount, ModeAtomic}).Draw(t, "mode")
		p, err := readWhole(encodeMeta(small(mode)))
		if err != nil {
			t.Fatal(err)
		}
		want := make([]uint64, 6)
		for _, runs := range rapid.SliceOfN(rapid.SliceOfN(run, 1, 3), 0, 3).Draw(t, "files") {
			e := rapid.SampledFrom(encodings).Draw(t, "encoding")
			if err := p.Add(encodeCounters(p, e, runs...)); err != nil {
				t.Fatal(err)
			}
			for _, counters := range runs {
				for i, n := range counters {
					want[i] += uint64(n)
				}
			}
		}
		if mode == ModeSet {
			for i := range want {
				want[i] = min(want[i], 1)
			}
		}
		if diff := cmp.Diff(want, allCounts(p)); diff != "" {
			t.Fatalf("counts (-want +got):\n%s", diff)
		}
	})
}

func allCounts(p *Program) []uint64 {
	var counts []uint64
	for _, pkg := range p.Packages {
		for _, f := range pkg.Functions {
			for _, b := range f.Blocks {
				counts = append(counts, b.Count)
			}
		}
	}
	return counts
}

func TestCountsSaturate(t *testing.T) {
	t.Parallel()
	p := decodeSmall(t, ModeCount)
	p.Packages[0].Functions[0].Blocks[0].Count = math.MaxInt64 - 1
	if err := p.Add(encodeCounters(p, encodings[0], []uint32{5, 4, 3, 2, 1, 0})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]uint64{math.MaxInt64, 4, 3, 2, 1, 0}, allCounts(p)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
}

// TestCutFiles: the decoders refuse the beginning of a file, and add all its counters or
// none.
func TestCutFiles(t *testing.T) {
	t.Parallel()
	meta := encodeMeta(small(ModeCount))
	for n := range meta {
		if _, err := readWhole(meta[:n]); err == nil {
			t.Errorf("%d of %d bytes of meta-data pass for a file", n, len(meta))
		}
	}
	p := decodeSmall(t, ModeCount)
	for _, e := range encodings {
		file := encodeCounters(p, e, []uint32{1, 1, 1, 1, 1, 1}, []uint32{1, 1, 1, 1, 1, 1})
		for n := range file {
			_ = p.Add(file[:n]) // the first segment is a file of its own
		}
		if slices.Contains(allCounts(p), 2) {
			t.Fatalf("encoding %v: cut files were added", e)
		}
		p = decodeSmall(t, ModeCount)
	}
}

// TestRefused: errors name the problem.
func TestRefused(t *testing.T) {
	t.Parallel()
	meta := func(change func([]byte)) error {
		b := encodeMeta(small(ModeCount))
		change(b)
		_, err := readWhole(b)
		return err
	}
	counters := func(change func([]byte)) error {
		p := decodeSmall(t, ModeCount)
		b := encodeCounters(p, encodings[0], make([]uint32, 6))
		change(b)
		err := p.Add(b)
		if p.Runs != 0 {
			t.Error("refused counters count as a run")
		}
		return err
	}
	le := binary.LittleEndian
	offsets := func(b []byte) []byte { return b[56+48+44:] } // of the first package's functions
	for name, test := range map[string]struct{ got, want error }{
		"meta magic":      {meta(func(b []byte) { b[1] = 'x' }), ErrFormat},
		"meta version":    {meta(func(b []byte) { b[4] = 2 }), ErrVersion},
		"meta length":     {meta(func(b []byte) { b[8]++ }), ErrCorrupt},
		"many packages":   {meta(func(b []byte) { le.PutUint64(b[16:], 1<<60) }), ErrCorrupt},
		"mode":            {meta(func(b []byte) { b[48] = 9 }), ErrCorrupt},
		"package offset":  {meta(func(b []byte) { le.PutUint64(b[56:], 1<<63) }), ErrCorrupt},
		"package twice":   {meta(func(b []byte) { copy(b[64:72], b[56:]); copy(b[88:96], b[80:]) }), ErrCorrupt},
		"many functions":  {meta(func(b []byte) { le.PutUint32(b[56+48+40:], 1<<30) }), ErrTooLarge},
		"function offset": {meta(func(b []byte) { le.PutUint32(offsets(b), 1<<31) }), ErrCorrupt},
		"large file":      {second(readWhole(make([]byte, MaxFileSize+1))), ErrTooLarge},
		"counter magic":   {counters(func(b []byte) { b[1] = 'x' }), ErrFormat},
		"counter version": {counters(func(b []byte) { b[4] = 2 }), ErrVersion},
		"hash":            {counters(func(b []byte) { b[8]++ }), ErrOther},
		"flavor":          {counters(func(b []byte) { b[24] = 3 }), ErrVersion},
		"footer":          {counters(func(b []byte) { b[len(b)-16]++ }), ErrCorrupt},
		"segments":        {counters(func(b []byte) { b[len(b)-8] = 2 }), ErrCorrupt},
		"many entries":    {counters(func(b []byte) { le.PutUint64(b[32:], 1<<63) }), ErrCorrupt},
		"long strings":    {counters(func(b []byte) { le.PutUint32(b[40:], 1<<31) }), ErrCorrupt},
		"package":         {counters(func(b []byte) { b[32+16+8+1] = 7 }), ErrCorrupt},
		"function":        {counters(func(b []byte) { b[32+16+8+2] = 7 }), ErrCorrupt},
	} {
		if !errors.Is(test.got, test.want) {
			t.Errorf("%s: error %v, want %v", name, test.got, test.want)
		}
	}
}

// TestBounds: parts that are tiny in a file but large in memory are bounded.
func TestBounds(t *testing.T) {
	t.Parallel()
	function := Function{Blocks: make([]Block, maxBlocks/2)}
	p := &Program{Mode: ModeCount, Packages: []Package{{Functions: []Function{function}}, {Functions: []Function{function}}}}
	if _, err := readWhole(encodeMeta(p)); err != nil {
		t.Errorf("%d blocks: %v", maxBlocks, err)
	}
	p.Packages = append(p.Packages, Package{Functions: []Function{{Blocks: make([]Block, 1)}}})
	if _, err := readWhole(encodeMeta(p)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("%d blocks: %v", maxBlocks+1, err)
	}
	for n, want := range map[int]bool{maxStrings: false, maxStrings + 1: true} {
		c := cursor{rest: append(uvarints(n), make([]byte, n)...)} // empty strings
		if readStrings(&c, &memory{limit: math.MaxInt64}); c.bad != want {
			t.Errorf("%d strings are refused: %t", n, c.bad)
		}
	}
}

// TestFunctionsShareNothing: a small file cannot use one function many times.
func TestFunctionsShareNothing(t *testing.T) {
	t.Parallel()
	p := &Program{Mode: ModeCount, Packages: []Package{{Functions: make([]Function, 20)}}}
	functions := p.Packages[0].Functions
	functions[0].Blocks = make([]Block, 1000)
	b := encodeMeta(p)
	if _, err := readWhole(b); err != nil {
		t.Fatal(err)
	}
	offsets := b[56+16+44:][:4*len(functions)]
	for i := range functions {
		copy(offsets[4*i:], offsets[:4])
	}
	if _, err := readWhole(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("functions of one place: %v, want %v", err, ErrCorrupt)
	}
}

func second(_ *Program, err error) error { return err }
