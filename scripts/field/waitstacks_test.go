package main

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// TestShifts: stacks that cannot be are counted, those of goroutines that wake others are not looked at, and what has moved
// has no stack.
func TestShifts(t *testing.T) {
	const down = "main.(*worker).down"
	m := ccmap.New(ccmap.Options{})
	for _, stack := range [][]string{ // the innermost first
		{"[sleep]", "time.Sleep", "main.sleeps", down, down, shiftRoot},
		{"[runnable]", "main.locks", down, shiftRoot},
		{"[IO wait]", "internal/poll.(*FD).Read", "os.(*File).Read", "main.reads", down, shiftRoot},
		{"[sleep]", "time.Sleep", "main.(*worker).wakes"},
		{"[select]", "[moved]"},
		{"[chan receive]", "time.Sleep", "main.sleeps", down, shiftRoot}, // of another wait
		{"[sleep]", "time.Sleep", "main.sleeps", "main.(*worker).wakes", shiftRoot},
		{"[select]", "main.selects", down}, // without its root
		{"[sleep]", down, shiftRoot},       // of a function that does not wait so
	} {
		s := ccmap.Sample{Weight: 1}
		for _, name := range stack {
			s.Frames = append(s.Frames, ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: name}), Offset: ccmap.NoOffset})
		}
		m.Fold(&s)
	}
	if got := shiftsOf(m.Snapshot()); got.told != 7 || got.wrong != 4 || got.movedTime != 1 || got.time != 9 {
		t.Errorf("%+v", got)
	}
}
