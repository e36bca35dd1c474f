package taker

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
)

// TestMeterCharges: a switch pays for the watches that are set while it happens, on average
// between two readings.
func TestMeterCharges(t *testing.T) {
	t.Parallel()
	began := time.Now()
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	var m meter
	costs := perfevent.Costs{Switch: 3, Watch: 8}
	m.charge(costs, began, 0)
	for _, c := range []struct {
		look, watching int // when, and then
		read           int
		switches       uint64
		atSwitch       int64 // of all so far
		atWatch        int64
	}{
		{100, 0, 1000, 100, 300, 0},
		{1250, 1, 1500, 200, 600, 400},   // half of the time
		{2000, 0, 2500, 300, 900, 800},   // it was still set for half of the time
		{2500, 2, 3500, 400, 1200, 2400}, // two, all of the time
		{3500, 0, 3500, 500, 1500, 2400}, // no time has passed
		{4500, 0, 4500, 600, 1800, 2400},
	} {
		m.look(at(c.look), c.watching)
		m.charge(costs, at(c.read), c.switches)
		if m.atSwitch.Load() != c.atSwitch || m.atWatch.Load() != c.atWatch {
			t.Errorf("at %d ms: %d and %d", c.read, m.atSwitch.Load(), m.atWatch.Load())
		}
	}
}
