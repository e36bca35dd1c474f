package hotspot

import (
	"bytes"

	"github.com/ccmapd/ccmapd/internal/process"
)

// deep lengthens moments whose stack did not fit into the engine's copy, from the thread's memory as it is a
// little later. The outer frames of a deep stack stay for long. So the memory behind the copy is
// believed if the copy's end has not changed.
type deep struct {
	memory process.Memory
	moment process.Moment
	stack  []byte // of the moment
	left   int    // bytes that may be read until renew is called
}

// Bounds of what is read of deep stacks, bytes.
const (
	deepestStack = 1 << 20  // of one stack
	deepBytes    = 16 << 20 // of all stacks, in a second
	deepPiece    = 16 << 10 // at once, where memory permits it
	deepPage     = 4 << 10
	deepOverlap  = 2 << 10 // of the copy, read again
)

func (d *deep) renew() { d.left = deepBytes }

// takeMoment takes a moment. It reports whether its copy is cut, and the copy's end has not changed.
func (d *deep) takeMoment(m *process.Moment) bool {
	if !m.Cut || len(m.Stack) < deepOverlap || d.left < deepOverlap {
		return false
	}
	d.moment = *m
	d.stack = append(d.stack[:0], m.Stack...)
	end, again := d.stack[len(d.stack)-deepOverlap:], make([]byte, deepOverlap)
	d.left -= deepOverlap
	return d.memory.Read(m.Regs.SP+uint64(len(d.stack)-deepOverlap), again) == nil && bytes.Equal(end, again)
}

// more returns the moment with a stack that is about twice as long, or goes up to where its memory
// ends; nil if nothing more can be read.
func (d *deep) more() *process.Moment {
	before := len(d.stack)
	for size := deepPiece; len(d.stack) < min(2*before, deepestStack) && d.left >= size; {
		at := d.moment.Regs.SP + uint64(len(d.stack))
		n := size - int(at%uint64(size)) // so each read ends where a piece ends, or a page
		d.left -= n
		d.stack = append(d.stack, make([]byte, n)...)
		if d.memory.Read(at, d.stack[len(d.stack)-n:]) == nil {
			continue
		}
		d.stack = d.stack[:len(d.stack)-n]
		if size == deepPage {
			d.moment.Cut = false
			break
		}
		size = deepPage
	}
	if len(d.stack) == before {
		return nil
	}
	d.moment.Stack = d.stack
	return &d.moment
}
