package fanin

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
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

// TestBodyOf: what is not known and what is mixed stay so, and nothing else becomes either.
func TestBodyOf(t *testing.T) {
	t.Parallel()
	if BodyOf(0) != 0 || BodyOf(ccmap.MixedBodies) != Mixed {
		t.Errorf("not known: %x, mixed: %x", BodyOf(0), BodyOf(ccmap.MixedBodies))
	}
	rapid.Check(t, func(t *rapid.T) {
		half := rapid.Uint32().Draw(t, "half")
		bodies := []uint64{rapid.Uint64Range(1, ccmap.MixedBodies-1).Draw(t, "body"), uint64(half)<<32 | uint64(^half)}
		if half != 0 {
			bodies = append(bodies, uint64(half)<<32|uint64(half))
		}
		for _, body := range bodies {
			is := BodyOf(body)
			if body != ccmap.MixedBodies && (is == 0 || is == Mixed || BodyOf(uint64(is)) != is) {
				t.Fatalf("%x becomes %x", body, is)
			}
		}
	})
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
		if want := map[bool]error{false: ErrDamaged, true: ErrVersion}[i == len(magic)]; !errors.Is(err, want) {
			t.Fatalf("byte %d: %v, want %v", i, err, want)
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

// BenchmarkLoad looks one method up. Files have 20,000 methods, called from one random place each, with a hash of their
// code or without; or are those of a profile, $CCMAPD_FANIN.
func BenchmarkLoad(b *testing.B) {
	lists := map[string]List{"code=none": madeUp(false), "code=hashed": madeUp(true)}
	if path := os.Getenv("CCMAPD_FANIN"); path != "" {
		m, _, err := export.ReadFile(path, export.ReadOptions{})
		if err != nil {
			b.Fatal(err)
		}
		lists["file="+filepath.Base(path)] = Of(m.Snapshot())
	}
	for name, list := range lists {
		b.Run(name, func(b *testing.B) { benchmarkLoad(b, list) })
	}
}

func madeUp(hashed bool) List {
	m, r := ccmap.New(ccmap.Options{}), rand.New(rand.NewPCG(1, 30))
	name := func(i int) string {
		return fmt.Sprintf("example.com/service/internal/package%03d.(*Type%d).Method%d", i%300, i%7, i)
	}
	const methods = 20_000
	ids := make([]ccmap.MethodID, methods)
	for i := range ids {
		method := ccmap.Method{Name: name(i)}
		if hashed {
			method.Body = r.Uint64()
		}
		ids[i] = m.Names().Intern(method)
	}
	for _, id := range ids {
		caller := ccmap.Frame{Method: ids[r.IntN(methods)], Offset: uint32(r.IntN(50))}
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, caller}, Weight: 1, Fresh: ccmap.FreshUnknown})
	}
	return Of(m.Snapshot())
}

func benchmarkLoad(b *testing.B, list List) {
	file := Encode(list)
	f, err := Open(file)
	if err != nil {
		b.Fatal(err)
	}
	callers, at := 0, 0
	for _, e := range list {
		callers += len(e.Listed)
	}
	for b.Loop() {
		if _, found, err := f.Load(list[at].Key); !found || err != nil {
			b.Fatal(found, err)
		}
		at = (at + 7919) % len(list) // a prime: another block each time
	}
	b.ReportMetric(float64(len(file))/float64(f.Len()), "B/method")
	b.ReportMetric(float64(callers)/float64(f.Len()), "callers/method")
}
