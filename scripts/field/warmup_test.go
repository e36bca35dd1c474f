package main

import (
	"testing"
	"time"
)

// TestPeak: a start is at its peak where half a second of CPU time first has 95 % of the speed of the last quarter.
func TestPeak(t *testing.T) {
	t.Parallel()
	var w warmup
	done := 0.0
	for cpu := 10 * time.Millisecond; cpu <= 8*time.Second; cpu += 10 * time.Millisecond {
		rate := 100.0 // requests a second
		switch {
		case cpu > 3*time.Second:
			rate = 1000
		case cpu > 2*time.Second:
			rate = 900
		}
		done += rate / 100
		w.add(progress{2 * cpu, cpu, int64(done)})
		w.add(progress{2*cpu + time.Millisecond, cpu, int64(done)}) // no CPU time since: nothing to divide by
	}
	got := w.start()
	// Half of the window at 900, half at 1,000 requests a second is 950.
	if got.PeakCPU < 3.2 || got.PeakCPU > 3.3 || got.Peak != 2*got.PeakCPU {
		t.Errorf("the peak is at %v s of CPU time, %v s; want 3.25", got.PeakCPU, got.Peak)
	}
	if got.Late < 999 || got.Late > 1001 {
		t.Errorf("late speed: %v", got.Late)
	}
	if want := 4000.0 / (200 + 900 + 1000); got.RequestCPU < want-0.01 || got.RequestCPU > want+0.01 {
		t.Errorf("%v ms a request, want %v", got.RequestCPU, want)
	}
}
