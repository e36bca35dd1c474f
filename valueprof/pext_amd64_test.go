package valueprof

import (
	"testing"

	"pgregory.net/rapid"
)

// A processor without PEXT gathers the same bits in a loop. Not parallel: it
// hides the instruction from the whole package, while parallel tests wait.
func TestWithoutPext(t *testing.T) {
	had := usePext
	defer func() { usePext = had }()
	usePext = false
	rapid.Check(t, func(t *rapid.T) { compareToModel(t, HashPext) })
	for _, have := range []bool{false, had} {
		usePext = have
		tab := New(8, HashPext)
		s := uniform(12)
		count(tab, s.stream)
		if tab.Total() != int64(len(s.stream)) || broken(tab) != "" {
			t.Errorf("pext %v: total %d %s", have, tab.Total(), broken(tab))
		}
	}
}
