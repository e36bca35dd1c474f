package fanin

import (
	"bytes"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestRoundTrip: a file gives back each entry of random profiles, and none of other methods.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		all := Of(profiletest.Fold(profiletest.Samples(t, names), names))
		f, err := Open(Encode(all))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range all {
			sum := e.Other
			for _, c := range e.Listed {
				sum += c.Samples
			}
			if sum != e.Samples {
				t.Fatalf("%s: the callers have %d of %d samples", e.Name, sum, e.Samples)
			}
			got, found, err := f.Load(e.Key)
			if err != nil || !found || cmp.Diff(got, e.FanIn) != "" {
				t.Fatalf("%s: found %v, error %v\n%s", e.Name, found, err, cmp.Diff(got, e.FanIn))
			}
		}
		if whole, err := f.Entries(); err != nil || cmp.Diff(whole, all, cmpopts.EquateEmpty()) != "" {
			t.Fatalf("error %v\n%s", err, cmp.Diff(whole, all, cmpopts.EquateEmpty()))
		}
		for _, k := range []Key{{}, {Name: "ZZ"}, {Name: "A", Body: 1}, {Name: "A", Signature: "()"}} {
			if got, found, err := f.Load(k); found || err != nil {
				t.Fatalf("%+v: found %+v, error %v", k, got, err)
			}
		}
	})
}

// wide is the profile of one method that is called from so many places, from the i-th i+1 times.
func wide(places int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	hub := m.Names().Intern(ccmap.Method{Name: "hub"})
	for i := range places {
		caller := m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("caller%03d", i)})
		for range i + 1 {
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: hub}, {Method: caller, Offset: 7}}, Weight: 1, Fresh: ccmap.FreshUnknown})
		}
	}
	return m.Snapshot()
}

// TestManyCallers: twenty callers are listed, the others are counted, and no number says more than "more than 20".
func TestManyCallers(t *testing.T) {
	t.Parallel()
	for _, places := range []int{1, 20, 21, 300} {
		f, err := Open(Encode(Of(wide(places))))
		if err != nil {
			t.Fatal(err)
		}
		got, found, err := f.Load(Key{Name: "hub"})
		if err != nil || !found {
			t.Fatalf("found %v, error %v", found, err)
		}
		other := 0
		for i := range max(places-MostCallers, 0) {
			other += i + 1
		}
		if int(got.Callers) != min(places, 21) || len(got.Listed) != min(places, 20) || int(got.Other) != other ||
			int(got.Samples) != places*(places+1)/2 || got.Listed[0].Name != fmt.Sprintf("caller%03d", places-1) {
			t.Errorf("%d places: %d callers, %d listed, %d other of %d", places, got.Callers, len(got.Listed), got.Other, got.Samples)
		}
	}
}

// TestBetter: more samples win, and one's own where they are about equal.
func TestBetter(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		own, shared uint64
		want        int
	}{{0, 0, -1}, {0, 100, 1}, {100, 0, -1}, {1000, 1050, -1}, {1000, 1200, 1}} {
		if got := Better(FanIn{Samples: test.own}, FanIn{Samples: test.shared}); got != test.want {
			t.Errorf("own %d, shared %d: %d", test.own, test.shared, got)
		}
	}
}

// TestDamage changes each byte of a file: no wrong fan-in is given.
func TestDamage(t *testing.T) {
	t.Parallel()
	whole := Of(wide(100))
	file := Encode(whole)
	for i := range file {
		damaged := bytes.Clone(file)
		damaged[i] ^= 4
		f, err := Open(damaged)
		for _, e := range whole {
			if err != nil {
				break
			}
			var got FanIn
			var found bool
			if got, found, err = f.Load(e.Key); err == nil && (!found || cmp.Diff(got, e.FanIn) != "") {
				t.Fatalf("byte %d: %s has %+v", i, e.Name, got)
			}
		}
		if !errors.Is(err, ErrDamaged) {
			t.Fatalf("byte %d: %v", i, err)
		}
	}
	t.Logf("%d methods: %d bytes", len(whole), len(file))
}

func FuzzOpen(f *testing.F) {
	f.Add(Encode(Of(wide(3))))
	f.Add(Encode(Of(wide(100))))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := Open(b)
		if err != nil {
			return
		}
		file.Load(Key{Name: "hub"})
		for i := range file.blocks {
			file.Load(file.blocks[i].first)
		}
		all, err := file.Entries()
		if err != nil {
			return
		}
		for _, e := range all {
			if got, found, err := file.Load(e.Key); err != nil || !found || cmp.Diff(got, e.FanIn) != "" {
				t.Fatalf("%+v is loaded as %+v, found %v, error %v", e, got, found, err)
			}
		}
		table := TableOf(all)
		if s := table.Store(all); s.Created+s.Overwritten+s.Worse > 0 || s.Ties != len(all) {
			t.Fatalf("stored again: %+v", s)
		}
		if _, err := table.Encode(); err != nil {
			t.Fatal(err)
		}
	})
}

func BenchmarkLoad(b *testing.B) {
	m := ccmap.New(ccmap.Options{})
	for i := range 20_000 {
		id := m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("example.com/service/internal/package%03d.(*Type%d).Method%d", i%300, i%7, i)})
		caller := m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("example.com/service/internal/package%03d.(*Type%d).Method%d", i/3%300, i/3%7, i/3)})
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, {Method: caller, Offset: uint32(i % 50)}}, Weight: 1, Fresh: ccmap.FreshUnknown})
	}
	file := Encode(Of(m.Snapshot()))
	f, err := Open(file)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, found, err := f.Load(Key{Name: "example.com/service/internal/package100.(*Type0).Method11200"}); !found || err != nil {
			b.Fatal(found, err)
		}
	}
	b.ReportMetric(float64(len(file))/float64(f.Len()), "B/method")
}
