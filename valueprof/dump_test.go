package valueprof

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files again")

// TestDump: the life of a table, from its third value to its end.
func TestDump(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	names := map[uint32]string{1: "main.(*T).Run", 2: "main.main"}
	p := NewProfile(Options{
		Capacity: 3, Every: 20, Hash: HashShift, Dump: &got,
		Name: func(s Site) string { return names[s.Method] },
	})
	for i := range uint64(24) {
		p.Call(Site{Method: 1, Offset: 8}, 0x10*(1+i%4))
		p.Call(Site{Method: 2}, i%2) // never has a table
	}
	p.Clear()
	golden := filepath.Join("testdata", "dump.golden")
	if *update {
		if err := os.WriteFile(golden, got.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Error(diff)
	}
}

// TestDumpReset: PolicyReset has an event of its own.
func TestDumpReset(t *testing.T) {
	t.Parallel()
	var got bytes.Buffer
	p := NewProfile(Options{Capacity: 3, Every: 20, Policy: PolicyReset, Dump: &got})
	for v := range uint64(40) {
		p.Call(Site{Method: 1, Offset: 2}, v)
	}
	if line := "table reset site=1+2 "; !bytes.Contains(got.Bytes(), []byte(line)) {
		t.Errorf("no %q in\n%s", line, got.String())
	}
}

func TestSiteString(t *testing.T) {
	t.Parallel()
	for s, want := range map[Site]string{{1, 2, 0}: "1+2", {1, 2, 3}: "1+2@3"} {
		if got := s.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// failing is a writer that fails from its second line on.
type failing struct{ lines int }

func (f *failing) Write(b []byte) (int, error) {
	f.lines++
	if f.lines > 1 {
		return 0, errors.New("disk full")
	}
	return len(b), nil
}

// TestDumpEndsAtError: the profile goes on without its dump.
func TestDumpEndsAtError(t *testing.T) {
	t.Parallel()
	w := &failing{}
	p := NewProfile(Options{Dump: w})
	for v := range uint64(100) {
		p.Call(Site{}, v)
	}
	if w.lines != 2 {
		t.Errorf("wrote %d lines", w.lines)
	}
	if got := p.Points(inContext); len(got) != 1 || got[0].Count != 100 {
		t.Errorf("%+v", got)
	}
}
