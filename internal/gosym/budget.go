package gosym

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrTooMuch: the symbols take more time, memory or reading than they may. The
// target decides over all of its tables, so a hostile one could make any of them
// endless.
var ErrTooMuch = errors.New("symbols take more than they may")

// The bounds of a load. The largest programs known, with 200,000 functions, take a
// third of it. Steps bound the work, whatever else runs on the machine.
const (
	maxHeld = 96 << 20        // bytes that a table holds
	maxRead = 1 << 30         // bytes of memory and files that one load reads
	maxWork = 1 << 28         // steps of one load: a second or so
	maxWait = 3 * time.Second // in reads; pages that are on disk take their time
)

// callCost is the cost of a read from memory or a file beyond its bytes, in steps.
const callCost = 128

// budget is the rest of the bounds of one load or one sample. All code that reads
// the target's memory or files, keeps their bytes, or walks through them draws
// from one budget, so that no product of bounds exceeds it. A budget that is spent
// stays so, and all that draws from it ends.
//
// The zero budget is spent. One goroutine uses a budget.
type budget struct {
	ctx   context.Context // nil: none
	wait  time.Duration   // in reads
	read  int             // bytes
	hold  int             // bytes
	steps int             // pieces of work that take some ns each
	look  int             // steps left when to look at the context again
	spent error           // why nothing is left
}

// newBudget returns the budget of a load. held is the memory of the table.
func newBudget(ctx context.Context, held int) *budget {
	return &budget{ctx: ctx, wait: maxWait, read: maxRead, hold: maxHeld - held, steps: maxWork, look: maxWork}
}

// ended says whether the context of the budget is done.
func (b *budget) ended() bool { return b.ctx != nil && b.ctx.Err() != nil }

// work draws steps.
func (b *budget) work(steps int) error {
	if b.spent != nil {
		return b.spent
	}
	if b.steps -= steps; steps < 0 || b.steps < 0 {
		return b.exceed("too many steps")
	}
	const often = 1 << 16 // less than a ms
	if b.steps <= b.look {
		b.look = b.steps - often
		if b.ended() {
			b.spent = context.Cause(b.ctx)
		}
	}
	return b.spent
}

// waited draws the time since a read began. A slow read lets the context end the budget at
// once.
func (b *budget) waited(start time.Time) error {
	const slow = time.Millisecond
	took := time.Since(start)
	if took > slow && b.spent == nil && b.ended() {
		b.spent = context.Cause(b.ctx)
	}
	if b.wait -= took; b.wait < 0 && b.spent == nil {
		return b.exceed("its memory or file is too slow")
	}
	return b.spent
}

// reading draws the cost of n bytes from memory or a file.
func (b *budget) reading(n int) error {
	if b.spent == nil && (n < 0 || n > b.read) {
		return b.exceed("too much to read")
	}
	b.read -= n
	return b.work(callCost + n/64)
}

// holding draws n bytes of memory.
func (b *budget) holding(n int) error {
	if b.spent == nil && (n < 0 || n > b.hold) {
		return b.exceed("too much to hold")
	}
	b.hold -= n
	return b.spent
}

func (b *budget) exceed(what string) error {
	b.spent = fmt.Errorf("%s: %w", what, ErrTooMuch)
	return b.spent
}
