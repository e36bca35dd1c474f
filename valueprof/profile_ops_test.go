package valueprof

import (
	"testing"

	"pgregory.net/rapid"
)

// ops drives a profile by a string of bytes: four a step, an operation, a method,
// an offset with a context, and a value. It counts what it tells the profile.
type ops struct {
	p    *Profile
	held []*Accessed // of readers that have not released yet
	told uint64
}

func (o *ops) step(b [4]byte) {
	s := Site{Method: uint32(b[1] % 5), Offset: uint32(b[2] % 3), Context: uint32(b[2] >> 6)}
	v := uint64(b[3])
	switch b[0] % 64 {
	case 37:
		o.p.Renew()
	case 38:
		o.p.look()
	case 39:
		o.access(s.Method)
	case 40:
		o.release(int(v))
	case 41:
		o.p.Null(s)
		o.told++
	case 42:
		n := v << (b[1] % 40)
		o.p.Block(s, n)
		o.told += n
	case 43:
		o.p.Branch(s, v%2 == 1)
		o.told++
	case 44:
		o.p.Switch(s, v)
		o.told++
	default:
		o.calls(s, v, 1+int(b[0]>>4))
	}
}

func (o *ops) calls(s Site, v uint64, n int) {
	for range n {
		o.p.Call(s, v)
	}
	o.told += uint64(n)
}

func (o *ops) access(id uint32) {
	if m := o.p.methods[id]; m != nil {
		a := new(Accessed)
		a.Best(&m.history)
		o.held = append(o.held, a)
	}
}

func (o *ops) release(i int) {
	if n := len(o.held); n > 0 {
		o.held[i%n].Release()
		o.held[i%n] = o.held[n-1]
		o.held = o.held[:n-1]
	}
}

// check says what must hold at any time.
func (o *ops) check(t interface{ Errorf(string, ...any) }) {
	s := o.p.Stats()
	if s.Calls != o.told {
		t.Errorf("told %d executions, has %+v", o.told, s)
	}
	if max := o.p.opts.MaxPoints; s.Points > max || s.Methods > max || s.Points != o.p.pool.live {
		t.Errorf("limit of %d, %d in use: %+v", max, o.p.pool.live, s)
	}
	if max := maxBytes(o.p, len(o.held)); s.Bytes > max {
		t.Errorf("%d bytes are over %d: %+v", s.Bytes, max, s)
	}
	checkViews(t, o.p)
	for _, a := range o.held {
		for _, i := range a.infos {
			o.checkHeld(t, i)
		}
	}
}

// checkHeld makes sure that what a reader holds was not freed.
func (o *ops) checkHeld(t interface{ Errorf(string, ...any) }, i *Info) {
	if i.refs.Load() < 1 {
		t.Errorf("a reader's info has %d references", i.refs.Load())
	}
	if b := i.body.(*body); b.points == nil && b.Evidence().Calls != 0 {
		t.Errorf("a reader's info was freed")
	}
}

func checkViews(t interface{ Errorf(string, ...any) }, p *Profile) {
	for v := range p.Points() {
		sum := v.Other + v.Aged + uint64(max(v.Nulls, 0))
		for i, x := range v.Values {
			sum += x.Count
			if i > 0 && v.Values[i-1].Count < x.Count || x.Count == 0 {
				t.Errorf("values are not sorted: %+v", v)
			}
		}
		if v.Kind != KindBlock && sum != v.Count || v.Kind == KindBlock && sum != 0 {
			t.Errorf("sum of %d: %+v", sum, v)
		}
	}
}

// maxBytes bounds the memory of a profile: per point itself, its table, its
// places in the index and the slices; per method its infos.
func maxBytes(p *Profile, readers int) int {
	const table = 512 // more than any with 7 values has
	points, methods := p.opts.MaxPoints, p.opts.MaxPoints
	perPoint := 2*pointBytes + tendedBytes + table + 8*pointerBytes
	perMethod := methodBytes + 2*bodyBytes + 16*pointerBytes
	return points*perPoint + methods*perMethod + readers*bodyBytes + minIndexSlots*pointerBytes
}

func (o *ops) finish() {
	for _, a := range o.held {
		a.Release()
	}
	o.held = nil
	o.p.look()
}

// leftovers checks that nothing is held but the infos of the methods.
func (o *ops) leftovers(t interface{ Errorf(string, ...any) }) {
	own := map[*Info]bool{}
	for _, m := range o.p.methods {
		for _, i := range []*Info{m.history.best.Load(), m.history.recent.Load()} {
			if i != nil {
				own[i] = true
			}
		}
	}
	if n := o.p.Stats().Infos; n != len(own) {
		t.Errorf("%d infos, of which %d belong to methods", n, len(own))
	}
}

// TestAnyInterleaving: whatever is called, renewed, looked at, held and dropped,
// every execution is somewhere, exactly once, and memory is bounded.
func TestAnyInterleaving(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		o := &ops{p: NewProfile(Options{
			Capacity:  rapid.SampledFrom([]int{3, 7}).Draw(t, "capacity"),
			Hash:      rapid.SampledFrom(Hashes()).Draw(t, "hash"),
			Policy:    Policy(rapid.IntRange(0, 2).Draw(t, "policy")),
			Every:     rapid.SampledFrom([]int{1, 10, 100}).Draw(t, "every"),
			Warm:      rapid.IntRange(1, 8).Draw(t, "warm"),
			MaxPoints: rapid.SampledFrom([]int{1, 5, 50, 5000}).Draw(t, "points"),
		})}
		data := rapid.SliceOfN(rapid.Byte(), 500, 4000).Draw(t, "ops")
		for i := 0; i+4 <= len(data); i += 4 {
			o.step([4]byte(data[i:]))
			if i%128 == 0 {
				o.check(t)
			}
		}
		o.check(t)
		o.finish()
		o.leftovers(t)
	})
}

// FuzzProfile drives a profile by arbitrary operations.
func FuzzProfile(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("\x0c\x01\x02\x03\x0c\x01\x02\x04\x0c\x01\x02\x05\x00\x00\x00\x00"))
	long := make([]byte, 4000)
	for i := range long {
		long[i] = byte(i*i>>3 + i)
	}
	f.Add(long)
	f.Fuzz(func(t *testing.T, data []byte) {
		o := &ops{p: NewProfile(Options{Warm: 2, Every: 8, MaxPoints: 40})}
		for ; len(data) >= 4; data = data[4:] {
			o.step([4]byte(data[:4]))
		}
		o.check(t)
		o.finish()
		o.leftovers(t)
	})
}

// TestExact: as long as a table has room for all values of a site, and nothing is
// renewed, a profile is exact.
func TestExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		p := NewProfile(Options{Warm: 1, Capacity: 7, Every: 1})
		values := rapid.SliceOfNDistinct(rapid.Uint64(), 1, 7, rapid.ID).Draw(t, "values")
		picks := rapid.SliceOfN(rapid.IntRange(0, len(values)*3-1), 50, 500).Draw(t, "calls")
		truth := map[Site]map[uint64]uint64{}
		for _, pick := range picks {
			s, v := Site{Method: 1, Context: uint32(pick % 3)}, values[pick/3]
			if truth[s] == nil {
				truth[s] = map[uint64]uint64{}
			}
			truth[s][v]++
			p.Call(s, v)
		}
		for v := range p.Points() {
			for _, x := range v.Values {
				if truth[v.Site][x.Value] != x.Count {
					t.Fatalf("%d is true of value %d: %+v", truth[v.Site][x.Value], x.Value, v)
				}
			}
			if len(v.Values) != len(truth[v.Site]) || v.Other+v.Aged != 0 {
				t.Fatalf("%v is the truth: %+v", truth[v.Site], v)
			}
			delete(truth, v.Site)
		}
		if len(truth) != 0 {
			t.Fatalf("without a point: %v", truth)
		}
	})
}
