package perfevent

import (
	"errors"
	"testing"
)

// TestSilentIsRefused: on a machine where breakpoints never fire, none can be set.
func TestSilentIsRefused(t *testing.T) {
	before := heard.Swap(heardSilence)
	defer heard.Store(before)
	_, counter := OpenCounter(func() ([]uint32, error) { return []uint32{0}, nil }, 8)
	_, watch := OpenWatchpoint(0)
	_, onCPU := OpenCPUWatch(0, []int{0})
	_, caught := Breakpoint{PC: 8}.Set(0, 1)
	for name, err := range map[string]error{"counter": counter, "watchpoint": watch, "watchpoint of CPUs": onCPU, "caught calls": caught} {
		if !errors.Is(err, ErrSilent) {
			t.Errorf("%s: error %v, want %v", name, err, ErrSilent)
		}
	}
}

// TestListen: what is known stays known, and agrees with what a write to a watched word shows.
func TestListen(t *testing.T) {
	err := Silent()
	if again := Silent(); again != err {
		t.Errorf("%v, and then %v", err, again)
	}
	if is := listen(); is != heardNothing && is != heard.Load() {
		t.Errorf("heard %d, and now %d", heard.Load(), is)
	}
}
