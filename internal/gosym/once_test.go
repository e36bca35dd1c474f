package gosym

import (
	"errors"
	"testing"
)

//go:noinline
func framed(n int) int { return leafless(n) + 1 }

//go:noinline
func leafless(n int) int { return n + 1 }

func inlinedHere(n int) int { return n * 3 }

func TestOnce(t *testing.T) {
	keep := framed(len(t.Name())) + inlinedHere(len(t.Name())*len(t.TempDir()))
	table := openSelf(t)
	const pkg = "github.com/ccmapd/ccmapd/internal/gosym."
	pc, err := table.Once(t.Context(), pkg+"framed")
	if err != nil {
		t.Fatal(err, keep)
	}
	f, _ := table.Func(pc)
	if delta, _ := table.SPDelta(pc); f.Name != pkg+"framed" || pc <= f.Entry || delta == 0 {
		t.Errorf("address %#x is in %s, %d after its entry, with a frame of %d", pc, f.Name, pc-f.Entry, delta)
	}
	// Every address before has no frame.
	for at := f.Entry; at < pc; at++ {
		if delta, _ := table.SPDelta(at); delta != 0 {
			t.Errorf("the frame is made before %#x, at %#x", pc, at)
		}
	}
	for name, want := range map[string]error{"leafless": ErrFrameless, "inlinedHere": ErrInlined, "missing": ErrNoFunction} {
		if _, err := table.Once(t.Context(), pkg+name); !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", name, err, want)
		}
	}
}
