package valueprof

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	if pointBytes != 64 {
		t.Errorf("a point has %d bytes, which is not a cache line", pointBytes)
	}
}

// inContext has the number of a context for a caller's offset.
func inContext(context uint32) []ccmap.Frame {
	if context == 0 {
		return nil
	}
	return []ccmap.Frame{{Offset: context}}
}

// siteOf undoes inContext.
func siteOf(p ccmap.Point) Site {
	s := Site{Method: uint32(p.Method), Offset: p.Offset}
	if p.Callers != nil {
		s.Context = p.Callers[0].Offset
	}
	return s
}

func newPoint(s Site, count int64, values ...Value) ccmap.Point {
	return ccmap.Point{
		Origin: ccmap.OriginBurst, Method: ccmap.MethodID(s.Method), Offset: s.Offset, End: s.Offset,
		Callers: inContext(s.Context), Count: count, Values: values, Nulls: ccmap.NullsUnknown,
	}
}

func TestProfile(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{})
	one, two, many := Site{1, 10, 0}, Site{1, 20, 7}, Site{2, 0, 0}
	for i := range uint64(100) {
		p.Call(one, 5)
		p.Call(two, min(i/10, 1))
		p.Call(many, i%4) // 0 to 3: from inline to table
	}
	want := []ccmap.Point{
		newPoint(one, 100, Value{Value: 5, Count: 100}),
		newPoint(two, 100, Value{Value: 1, Count: 90}, Value{Value: 0, Count: 10}),
		newPoint(many, 100, Value{Value: 0, Count: 25}, Value{Value: 1, Count: 25}, Value{Value: 2, Count: 25}, Value{Value: 3, Count: 25}),
	}
	if diff := cmp.Diff(want, p.Points(inContext)); diff != "" {
		t.Error(diff)
	}
	p.Clear()
	if got := p.Points(inContext); len(got) > 0 {
		t.Errorf("cleared, it has %+v", got)
	}
	p.Call(one, 6)
	if diff := cmp.Diff([]ccmap.Point{newPoint(one, 1, Value{Value: 6, Count: 1})}, p.Points(inContext)); diff != "" {
		t.Error(diff)
	}
}

// TestFullMakesRoom: points with few calls leave, contexts first, and the profile
// counts the calls that it loses with them.
func TestFullMakesRoom(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{MaxPoints: 4})
	for i := range uint32(3) {
		for range i + 1 {
			p.Call(Site{Method: i}, 1)
		}
	}
	p.Call(Site{Method: 0, Context: 9}, 1)
	p.Call(Site{Method: 7}, 1)
	got := map[ccmap.MethodID]int64{}
	for _, v := range p.Points(inContext) {
		got[v.Method] = v.Count
	}
	if diff := cmp.Diff(map[ccmap.MethodID]int64{1: 2, 2: 3, 7: 1}, got); diff != "" {
		t.Error(diff)
	}
	if s := p.Stats(); s.Evicted != 2 || s.Lost != 1 || s.Points != 3 {
		t.Errorf("%+v", s)
	}
}

// truth counts calls exactly.
type truth map[Site]map[uint64]int64

func (t truth) add(s Site, v uint64) {
	if t[s] == nil {
		t[s] = map[uint64]int64{}
	}
	t[s][v]++
}

// differs compares the truth with a profile that has room for everything.
func (t truth) differs(p *Profile) string {
	got := truth{}
	for _, v := range p.Points(inContext) {
		sum, site := v.Other, siteOf(v)
		got[site] = map[uint64]int64{}
		for i, x := range v.Values {
			got[site][x.Value] = x.Count
			sum += x.Count
			if i > 0 && v.Values[i-1].Count < x.Count || x.Count == 0 {
				return "values are not sorted"
			}
		}
		if sum != v.Count || v.Other != 0 {
			return "others, or a wrong sum"
		}
	}
	return cmp.Diff(t, got)
}

// TestExact: a profile is exact even where its tables have forgotten counts.
func TestExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := NewProfile(Options{
			Capacity: rapid.SampledFrom([]int{2, 3, 7}).Draw(t, "capacity"),
			Hash:     rapid.SampledFrom(Hashes()).Draw(t, "hash"),
			Policy:   Policy(rapid.IntRange(0, 2).Draw(t, "policy")),
			Every:    rapid.SampledFrom([]int{1, 10, 100}).Draw(t, "every"),
		})
		exact := truth{}
		values := rapid.SliceOfN(rapid.Uint64(), 1, 30).Draw(t, "values")
		for _, pick := range rapid.SliceOfN(rapid.IntRange(0, 3*len(values)-1), 50, 1000).Draw(t, "calls") {
			s, v := Site{Method: 1, Context: uint32(pick % 3)}, values[pick/3]
			exact.add(s, v)
			p.Call(s, v)
			if pick == 1 {
				p.Clear()
				clear(exact)
			}
		}
		if diff := exact.differs(p); diff != "" {
			t.Fatal(diff)
		}
	})
}

// FuzzProfile reads three bytes for each call: a method, an offset with a context, and
// a value. No call may be lost uncounted, and memory is bounded.
func FuzzProfile(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x01\x02\x03\x01\x02\x04\x01\x02\x05\x00\x00\x00"))
	long := make([]byte, 4000)
	for i := range long {
		long[i] = byte(i*i>>3 + i)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, data []byte) {
		const points, values = 16, 40
		p := NewProfile(Options{Capacity: 3, Every: 8, MaxPoints: points, MaxValues: values})
		told := int64(0)
		for ; len(data) >= 3; data = data[3:] {
			s := Site{Method: uint32(data[0] % 32), Offset: uint32(data[1] % 3), Context: uint32(data[1] >> 6)}
			p.Call(s, uint64(data[2]))
			if s.Context == 0 {
				told++
			}
		}
		stats := p.Stats()
		known, overflow := stats.Lost, 0
		for _, v := range p.Points(inContext) {
			if v.Callers == nil {
				known += v.Count
			}
			sum := v.Other
			for _, x := range v.Values {
				sum += x.Count
			}
			if sum != v.Count {
				t.Errorf("sum of %d: %+v", sum, v)
			}
		}
		for _, pt := range p.points {
			if pt.table != nil {
				overflow += len(pt.table.overflow)
			}
		}
		if known != told {
			t.Errorf("told %d calls, has %d: %+v", told, known, stats)
		}
		if stats.Points > points || stats.Values > values || stats.Values != overflow {
			t.Errorf("%d values overflow, over a limit: %+v", overflow, stats)
		}
	})
}

// TestIndexIsMap: an index finds the same points as a map.
func TestIndexIsMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newSiteIndex()
		m := siteMap{}
		for _, n := range rapid.SliceOfN(rapid.Uint32(), 100, 1000).Draw(t, "sites") {
			k := Site{Method: n >> 20, Offset: n >> 10 & 0x3ff, Context: n & 0x3ff}
			if found := x.find(k); found != m[k] {
				t.Fatalf("%+v: found %v, want %v", k, found, m[k])
			}
			if m[k] == nil {
				m[k] = &point{Site: k}
				x.insert(m[k])
			}
			if n%500 == 499 {
				x.empty()
				clear(m)
			}
		}
		for k, pt := range m {
			if x.find(k) != pt {
				t.Fatalf("%+v: not found", k)
			}
		}
		if 2*x.used > len(x.slots) || x.used != len(m) {
			t.Fatalf("%d used of %d slots, %d keys", x.used, len(x.slots), len(m))
		}
	})
}
