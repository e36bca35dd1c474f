package valueprof

import (
	"slices"
	"testing"
)

// callN counts n calls at a site that reach one value.
func callN(p *Profile, s Site, v uint64, n int) {
	for range n {
		p.Call(s, v)
	}
}

// onlyValues are the values of the points, in order.
func onlyValues(p *Profile) (all []uint64) {
	for v := range p.Points() {
		for _, x := range v.Values {
			all = append(all, x.Value)
		}
	}
	return all
}

// TestRecentReplacesBest once it has seen enough, and not before.
func TestRecentReplacesBest(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1})
	s := Site{Method: 1}
	callN(p, s, 5, 1000)
	p.Renew()
	callN(p, s, 6, enoughCalls-1)
	if got := onlyValues(p); !slices.Equal(got, []uint64{5}) {
		t.Errorf("too few calls: %v", got)
	}
	p.Call(s, 6)
	if got := onlyValues(p); !slices.Equal(got, []uint64{6}) {
		t.Errorf("enough calls: %v", got)
	}
	p.look()
	want := Stats{Methods: 1, Warm: 1, Points: 1, Infos: 1, Calls: 1256, Recorded: 256, Superseded: 1000, Looks: p.looked.Looks, Freed: 1}
	got := p.Stats()
	if got.Bytes = 0; got != want {
		t.Errorf("%+v", got)
	}
}

// TestFewCallsAddUp: recent info with too few calls for a verdict goes on through
// renewals, so that it gets one in the end.
func TestFewCallsAddUp(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1})
	s := Site{Method: 1}
	callN(p, s, 5, 1000)
	for range 16 {
		p.Renew()
		callN(p, s, 6, enoughCalls/16)
	}
	if got := onlyValues(p); !slices.Equal(got, []uint64{6}) {
		t.Errorf("values %v", got)
	}
}

// TestWorseRecentIsNotBest: a profile most of whose values have no slot does not
// replace one that knows them, however many calls it has seen.
func TestWorseRecentIsNotBest(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1, Capacity: 3})
	s := Site{Method: 1}
	callN(p, s, 5, 1000)
	p.Renew()
	for v := range uint64(10_000) {
		p.Call(s, 100+v)
	}
	if got := onlyValues(p); !slices.Equal(got, []uint64{5}) {
		t.Errorf("values %v", got)
	}
	p.Renew() // the worse one goes
	if got := p.Stats(); got.Superseded != 10_000 || got.Points != 1 {
		t.Errorf("%+v", got)
	}
}

// TestReaderOutlivesRenewal: the points that a reader goes through stay as they
// are while they are superseded.
func TestReaderOutlivesRenewal(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1})
	for offset := range uint32(3) {
		callN(p, Site{Method: 1, Offset: offset}, uint64(offset), 300)
	}
	read := 0
	for v := range p.Points() {
		if v.Count != 300 || v.Values[0].Value != uint64(read) {
			t.Errorf("%+v", v)
		}
		read++
		p.Renew()
		callN(p, Site{Method: 1, Offset: 9}, 9, 300)
		for range p.Points() { // makes the recent one the best
		}
		p.look()
	}
	if read != 3 {
		t.Errorf("read %d points", read)
	}
	if p.look(); p.Stats().Points != 1 {
		t.Errorf("%+v", p.Stats())
	}
}

// TestRoomForNew: when more than half of the points is taken by what was, methods
// with few calls make room for what is.
func TestRoomForNew(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1, MaxPoints: 100})
	for id := range uint32(8) {
		for offset := range uint32(12) {
			callN(p, Site{Method: id, Offset: offset}, 1, int(1+id))
		}
	}
	full := p.Stats()
	if full.Points != 96 || full.Evicted != 0 {
		t.Fatalf("%+v", full)
	}
	p.Renew()
	s := p.Stats()
	if s.Points != 48 || s.Evicted != 48 || s.Calls != full.Calls || s.Dropped != 0 {
		t.Errorf("%+v", s)
	}
	if p.MethodBytes(3) != 0 || p.MethodBytes(4) == 0 {
		t.Error("the methods with the fewest calls should have gone")
	}
}

// TestFullMakesRoom: a program that has ever new call sites, and never drifts,
// does not keep a profile from learning what is frequent in it now.
func TestFullMakesRoom(t *testing.T) {
	t.Parallel()
	const early, late, rounds = 1, 2, 1000
	p := NewProfile(Options{Warm: 1, MaxPoints: 64})
	for n := range uint32(rounds) {
		p.Call(Site{Method: early}, 7)
		if n >= rounds/2 {
			callN(p, Site{Method: late}, 8, 4)
		}
		p.Call(Site{Method: 10 + n}, 9) // never again
	}
	counts := map[uint32]uint64{}
	for v := range p.Points() {
		counts[v.Site.Method] = v.Count
	}
	if counts[early] != rounds || counts[late] != 4*rounds/2 {
		t.Errorf("%d and %d calls", counts[early], counts[late])
	}
	s := p.Stats()
	if s.Dropped != 0 || s.Points > 64 || s.Calls != 4*rounds || s.Evicted == 0 {
		t.Errorf("%+v", s)
	}
	if s.Looks > s.Evicted/32+4*rounds/250 {
		t.Errorf("room is made more often than half of it is taken: %+v", s)
	}
}

// TestColdMethodsMakeRoom: methods that never become warm do not keep others out.
func TestColdMethodsMakeRoom(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 3, MaxPoints: 10})
	for id := range uint32(10) {
		p.Call(Site{Method: id}, 1)
	}
	callN(p, Site{Method: 99}, 1, 3)
	if s := p.Stats(); s.Points != 1 || s.Dropped != 0 || s.Cold != 12 || s.Calls != 13 {
		t.Errorf("%+v", s)
	}
}

// TestColdMethodsAreForgotten when they do nothing between two renewals.
func TestColdMethodsAreForgotten(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 3})
	p.Call(Site{Method: 1}, 1)
	p.Renew()
	p.Call(Site{Method: 2}, 1)
	p.Renew()
	if p.MethodBytes(1) != 0 || p.MethodBytes(2) == 0 {
		t.Error("method 1 should be forgotten, 2 should not")
	}
	if s := p.Stats(); s.Methods != 1 || s.Cold != 2 || s.Calls != 2 {
		t.Errorf("%+v", s)
	}
}

// TestMemoryIsUsedAgain: renewals without end hold no more than one of them.
func TestMemoryIsUsedAgain(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1})
	round := func() Stats {
		for v := range uint64(5) {
			for offset := range uint32(100) {
				callN(p, Site{Method: offset % 7, Offset: offset}, v, 10)
			}
		}
		p.Renew()
		return p.Stats()
	}
	for range 3 {
		round()
	}
	before := round().Bytes
	for range 20 {
		if after := round().Bytes; after != before {
			t.Fatalf("%d bytes became %d", before, after)
		}
	}
}

// TestPointsWhileForgotten: methods that are forgotten while a reader goes through
// the points do not come up, and a reader may stop.
func TestPointsWhileForgotten(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1, MaxPoints: 4})
	for id := range uint32(4) {
		callN(p, Site{Method: id}, 1, 10)
	}
	read := 0
	for range p.Points() {
		p.Renew() // forgets two of four, of which the reader holds the first
		read++
	}
	if read != 3 {
		t.Errorf("read %d points", read)
	}
	for range p.Points() {
		break
	}
	if p.look(); p.Stats().Points != 2 {
		t.Errorf("%+v", p.Stats())
	}
}
