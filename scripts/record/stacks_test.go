package main

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/testdata/recorded"
)

// TestStacksRoundTrip writes samples of every kind and reads them.
func TestStacksRoundTrip(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	a, b := names.Intern(ccmap.Method{Name: "A"}), names.Intern(ccmap.Method{Name: "B"})
	samples := []ccmap.Sample{
		{Time: 7, Weight: 1, Top: ccmap.TopRepeated, Fresh: ccmap.FreshUnknown, Frames: []ccmap.Frame{{Method: b, Offset: 2}, {Method: a, Offset: ccmap.NoOffset}}},
		{Time: 7, Thread: 1, Weight: math.MaxInt64, Fresh: 1, Truncated: true, Frames: []ccmap.Frame{{Method: b, Offset: 0}}},
		{Time: 9, Weight: 3, Top: ccmap.TopNew, Depth: 1, Frames: []ccmap.Frame{{Method: a, Offset: 5}}},
	}
	var file bytes.Buffer
	if err := writeStream(&file, streamHeader{Command: "x"}, names, samples); err != nil {
		t.Fatal(err)
	}
	read := ccmap.NewNames()
	got, err := recorded.Read(&file, read)
	if err != nil {
		t.Fatal(err)
	}
	for i := range samples {
		samples[i].Time -= 7 // times begin at the first sample
	}
	if d := cmp.Diff(samples, got); d != "" {
		t.Errorf("(-written +read):\n%s", d)
	}
	if read.Len() != int(ccmap.FirstID)+2 || read.At(b).Name != "B" {
		t.Errorf("%d methods, the second is %q", read.Len(), read.At(b).Name)
	}
}

// TestRecordedStacks reads the streams in the repository and folds them.
func TestRecordedStacks(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"server", "compiler"} {
		m := ccmap.New(ccmap.Options{})
		samples, err := recorded.Open(name, m.Names())
		if err != nil {
			t.Fatal(err)
		}
		m.FoldBatch(samples)
		if got := m.Snapshot().Total().Samples; got < 10_000 || got != int64(len(samples)) {
			t.Errorf("%s: %d samples folded of %d, want 10,000 and more", name, got, len(samples))
		}
		if err := m.CheckValid(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestShortened(t *testing.T) {
	t.Parallel()
	if got := shortened("compile -o x"); got != "compile -o x" {
		t.Errorf("shortened a short text to %q", got)
	}
	if got := shortened(strings.Repeat("x", 1000)); len(got) > 210 {
		t.Errorf("%d bytes are left", len(got))
	}
}

// FuzzStacks reads any bytes as a stream.
func FuzzStacks(f *testing.F) {
	var file bytes.Buffer
	names := ccmap.NewNames()
	a := names.Intern(ccmap.Method{Name: "A"})
	samples := []ccmap.Sample{{Frames: []ccmap.Frame{{Method: a, Offset: 1}}}}
	if err := writeStream(&file, streamHeader{}, names, samples); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		m := ccmap.New(ccmap.Options{})
		samples, err := recorded.Read(bytes.NewReader(data), m.Names())
		if err != nil {
			return
		}
		m.FoldBatch(samples)
		if err := m.CheckValid(); err != nil {
			t.Error(err)
		}
	})
}
