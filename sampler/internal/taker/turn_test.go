package taker

import (
	"testing"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/internal/perfevent"
)

// TestHandOverAfterClockIsSet: samples wait for a beat at most, though the wall clock is set back by an hour
// meanwhile.
func TestHandOverAfterClockIsSet(t *testing.T) {
	t.Parallel()
	tk := new(Taker)
	tk.wait(uint64(perfevent.Monotonic()))
	now := time.Now()
	for tk.dueBy(now) { // a beat came between the two
		tk.due, tk.oldest = time.Time{}, perfevent.Monotonic()
		now = time.Now()
	}
	now = now.Add(HandOver + HandOver/16)
	wall := (*uint64)(unsafe.Pointer(&now)) // as time.Now has it: see package beat's test
	*wall -= 3600 << 30
	if !tk.dueBy(now) {
		t.Errorf("not handed over at %v, due at %v", now, tk.due)
	}
}
