package valueprof

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSizes(t *testing.T) {
	t.Parallel()
	if pointBytes != 64 {
		t.Errorf("a point has %d bytes, which is not a cache line", pointBytes)
	}
}

// views copies what Points gives.
func views(p *Profile) []PointView {
	var all []PointView
	for v := range p.Points() {
		v.Values = append([]Value(nil), v.Values...)
		all = append(all, v)
	}
	return all
}

func TestProfile(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 1})
	call, condition, choice, block := Site{1, 10, 0}, Site{1, 20, 0}, Site{1, 30, 7}, Site{2, 0, 0}
	for i := range 100 {
		p.Call(call, uint64(i%4)) // 0 to 3: from inline to table
		p.Branch(condition, i%4 == 0)
		p.Switch(choice, uint64(min(i/10, 1)))
	}
	p.Null(call)
	p.Block(block, 1<<40)
	p.Block(block, 2)
	p.Call(block, 5)
	want := []PointView{
		{Site: call, Kind: KindCall, Count: 101, Nulls: 1, Values: []Value{{0, 25}, {1, 25}, {2, 25}, {3, 25}}},
		{Site: condition, Kind: KindBranch, Count: 100, Nulls: NullsUnknown, Values: []Value{{0, 75}, {1, 25}}},
		{Site: choice, Kind: KindSwitch, Count: 100, Nulls: NullsUnknown, Values: []Value{{1, 90}, {0, 10}}},
		{Site: block, Kind: KindBlock, Count: 1<<40 + 2, Nulls: NullsUnknown},
		{Site: block, Kind: KindCall, Count: 1, Nulls: NullsUnknown, Values: []Value{{5, 1}}},
	}
	if diff := cmp.Diff(want, views(p)); diff != "" {
		t.Error(diff)
	}
}

func TestWarm(t *testing.T) {
	t.Parallel()
	p := NewProfile(Options{Warm: 3})
	for i := range 5 {
		p.Call(Site{Method: 1, Offset: uint32(i)}, 1)
	}
	p.Call(Site{Method: 2}, 1)
	s := p.Stats()
	if s.Methods != 2 || s.Warm != 1 || s.Points != 3 || s.Cold != 3 || s.Recorded != 3 || s.Calls != 6 {
		t.Errorf("%+v", s)
	}
	if p.MethodBytes(1) <= p.MethodBytes(2) || p.MethodBytes(3) != 0 {
		t.Errorf("method 1: %d bytes, cold method 2: %d, unknown method 3: %d",
			p.MethodBytes(1), p.MethodBytes(2), p.MethodBytes(3))
	}
}
