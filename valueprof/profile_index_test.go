package valueprof

import (
	"testing"

	"pgregory.net/rapid"
)

// TestIndexIsMap: an index finds what a map finds.
func TestIndexIsMap(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		x := newIndex()
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
