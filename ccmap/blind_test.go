package ccmap_test

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestBlind(t *testing.T) {
	t.Parallel()
	m, a, b, _ := abc()
	if got := m.Snapshot().Blind(); got != (ccmap.Blind{}) {
		t.Errorf("of an empty map: %+v", got)
	}
	unknown := m.Names().Intern(ccmap.Method{Name: ccmap.UnknownName, Signature: "/lib/x.so"})
	kernel := m.Names().Intern(ccmap.Method{Name: ccmap.KernelName})
	fold := func(weight int64, truncated bool, methods ...ccmap.MethodID) {
		s := ccmap.Sample{Weight: weight, Fresh: ccmap.FreshUnknown, Truncated: truncated}
		for _, id := range methods {
			s.Frames = append(s.Frames, ccmap.Frame{Method: id})
		}
		m.Fold(&s)
	}
	fold(80, false, b, a)
	fold(5, true, b, a)
	fold(6, false, unknown, a)
	fold(4, false, kernel, unknown, a)
	fold(5, false, b, unknown, a) // the innermost is known
	got := m.Snapshot().Blind()
	if want := (ccmap.Blind{Truncated: 5, Unknown: 10}); got != want || got.Misleads() {
		t.Errorf("%+v, want %+v, which does not mislead", got, want)
	}
	fold(10, true, unknown)
	if got := m.Snapshot().Blind(); !got.Misleads() || got.Truncated < 13 || got.Unknown < 18 {
		t.Errorf("%+v, want much more", got)
	}
}
