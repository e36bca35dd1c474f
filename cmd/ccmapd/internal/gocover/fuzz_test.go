package gocover

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// realFiles returns the files with a prefix that the counted program has written.
func realFiles(f *testing.F, prefix string) [][]byte {
	names, err := filepath.Glob(filepath.Join(counts(f, ModeCount).dir, prefix+"*"))
	if err != nil || len(names) == 0 {
		f.Fatalf("no %s files: %v", prefix, err)
	}
	var files [][]byte
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, b)
	}
	return files
}

// FuzzMeta: any bytes give a program or an error, and no more blocks than fit into the
// bytes.
func FuzzMeta(f *testing.F) {
	f.Add(encodeMeta(small(ModeSet)))
	f.Add(encodeMeta(&Program{Mode: ModeCount}))
	for _, b := range realFiles(f, metaPrefix) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := readWhole(b)
		if err != nil {
			return
		}
		if n := len(allCounts(p)); n > len(b)/blockBytes {
			t.Errorf("%d blocks in %d bytes", n, len(b))
		}
		if err := p.writeText(io.Discard); err != nil {
			t.Error(err)
		}
		for _, pkg := range p.Packages {
			for _, f := range pkg.Functions {
				pkg.Symbol(&f)
			}
		}
	})
}

// FuzzCounters: any bytes add a run, or leave the program as it was.
func FuzzCounters(f *testing.F) {
	known := counts(f, ModeCount).read(f)
	for _, e := range encodings {
		f.Add(encodeCounters(small(ModeCount), e, []uint32{1, 2, 3, 4, 5, 6}, []uint32{1 << 31, 0, 0, 0, 0, 1}))
	}
	for _, b := range realFiles(f, counterPrefix) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, p := range []*Program{decodeSmall(t, ModeCount), clone(known)} {
			before, runs := allCounts(p), p.Runs
			err := p.Add(b)
			switch after := allCounts(p); {
			case err != nil && (!slices.Equal(before, after) || p.Runs != runs):
				t.Errorf("counts changed in spite of %v", err)
			case err == nil && p.Runs != runs+1:
				t.Errorf("%d runs after %d", p.Runs, runs)
			}
		}
	})
}

func clone(p *Program) *Program {
	c := *p
	c.Packages = slices.Clone(c.Packages)
	for i := range c.Packages {
		c.Packages[i].Functions = slices.Clone(c.Packages[i].Functions)
		for j := range c.Packages[i].Functions {
			f := &c.Packages[i].Functions[j]
			f.Blocks = slices.Clone(f.Blocks)
		}
	}
	return &c
}

// FuzzSource: any text is parsed or refused, and each block of any function goes to one
// function.
func FuzzSource(f *testing.F) {
	for _, file := range []string{"truth.go", "work.go", "choose.go", "lib.v1/lib.go"} {
		text, err := os.ReadFile(filepath.Join("testdata/counted", file))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("package p\nfunc F() {\n//line x.go:1\nif x {} else if y {} else {}\nswitch {}\nselect {}\n}\nvar v = func() {}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := ParseSource(text)
		if err != nil {
			return
		}
		for start := range s.functions {
			blocks := []Block{{Start: start, End: start}}
			for p := range s.starts {
				blocks = append(blocks, Block{Start: p, End: Position{p.Line, p.Column + 1}, Count: 1})
			}
			split := 0
			parts, ok := s.Split(Function{Name: "F", Blocks: blocks}, ModeCount)
			for _, part := range parts {
				split += len(part.Blocks)
			}
			if !ok || split != len(blocks) {
				t.Errorf("split %v: %d blocks became %d", ok, len(blocks), split)
			}
		}
	})
}
