package managedtest

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// program decides the guest's next operation, with depth calls on the stack, the first
// one of A included. The program ends when that one returns.
type program func(depth int) Op

// script is a program of the given operations. Then it returns.
func script(ops ...Op) program {
	return func(int) Op {
		if len(ops) == 0 {
			return Return
		}
		op := ops[0]
		ops = ops[1:]
		return op
	}
}

// deepest bounds the calls of wander: VMs may have small stacks.
const deepest = 24

// wander is a program of ops operations, at random, by depths: it climbs and falls in
// runs, as guests do.
func wander(seed uint64, ops int) program {
	r := rand.New(rand.NewPCG(seed, 0))
	up := 0.7
	return func(depth int) Op {
		ops--
		if r.IntN(20) == 0 {
			up = 1 - up
		}
		switch {
		case ops < 0, depth == deepest:
			return Return
		case depth == 1, r.Float64() < up:
			return CallA + Op(r.IntN(2))
		}
		return Return
	}
}

// call is an activation of the guest.
type call struct {
	name string
	seen bool // by a sample
}

// guest is one run of a program, with its stack.
type guest struct {
	vm      VM
	program program
	at      func(*guest, managed.Walker) error // called at each stop

	calls        []call // of A and B, outermost first
	above, below int    // frames of the VM, around the frames of calls
	stops        int    // so far
	began        bool   // the innermost call has begun since the last stop
	err          error  // the first error; the program then returns at once
}

// run runs a program, with a call of at at each stop.
func run(vm VM, p program, at func(*guest, managed.Walker) error) error {
	g := &guest{vm: vm, program: p, at: at}
	err := vm.Run(g.next)
	switch {
	case g.err != nil:
		return g.err
	case err != nil:
		return fmt.Errorf("run the program: %w", err)
	case g.stops == 0:
		return errors.New("the program has not called next")
	case len(g.calls) > 0:
		return fmt.Errorf("the program has ended with %d calls on its stack", len(g.calls))
	}
	return nil
}

// next is the program's next.
func (g *guest) next(w managed.Walker) Op {
	if g.err == nil {
		g.err = g.stop(w)
	}
	if g.err != nil {
		return Return
	}
	op := g.program(len(g.calls))
	switch g.began = op != Return; op {
	case CallA:
		g.calls = append(g.calls, call{name: g.vm.A})
	case CallB:
		g.calls = append(g.calls, call{name: g.vm.B})
	default:
		g.calls = g.calls[:len(g.calls)-1]
	}
	return op
}

func (g *guest) stop(w managed.Walker) error {
	if g.stops++; g.stops == 1 {
		g.calls, g.began = append(g.calls, call{name: g.vm.A}), true
		if err := g.survey(w); err != nil {
			return err
		}
	}
	if len(g.calls) == 0 {
		return errors.New("the program has called next after A had returned")
	}
	return g.at(g, w)
}

// survey finds the VM's own frames around the first call of A.
func (g *guest) survey(w managed.Walker) error {
	frames := walk(w)
	for i, f := range frames {
		if g.name(f.Method) == g.vm.A {
			g.above, g.below = i, len(frames)-1-i
			return nil
		}
	}
	return fmt.Errorf("the first walk has %d frames and none is of %s", len(frames), g.vm.A)
}

// name returns the name of a method, or a text for a missing one.
func (g *guest) name(m ccmap.MethodID) string {
	if int64(m) >= int64(g.vm.Names.Len()) {
		return fmt.Sprintf("method %d of %d", m, g.vm.Names.Len())
	}
	return g.vm.Names.At(m).Name
}

// depth is the number of frames of a walk.
func (g *guest) depth() int { return g.above + len(g.calls) + g.below }

// call returns the guest's call of frame i of a walk, or nil.
func (g *guest) call(i int) *call {
	i -= g.above
	if i < 0 || i >= len(g.calls) {
		return nil
	}
	return &g.calls[len(g.calls)-1-i]
}

// walk returns a walker's frames.
func walk(w managed.Walker) []managed.Frame {
	var frames []managed.Frame
	w.Walk(func(f managed.Frame) bool {
		frames = append(frames, f)
		return len(frames) < mostFrames
	})
	return frames
}

// mostFrames ends an endless walk.
const mostFrames = 1 << 16
