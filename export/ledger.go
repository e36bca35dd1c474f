package export

import (
	"fmt"
	"sync/atomic"
)

// ledger counts all that one load takes, whichever of its parts takes it: the steps of its work, and the memory
// that its caller has reserved. A nil ledger has no bounds. Goroutines that read ahead take steps, too; all else
// belongs to the goroutine that reads.
type ledger struct {
	most  int64         // steps that the load may take
	steps *atomic.Int64 // that it has taken

	reserve  func(bytes int64) error // nil: memory is not reserved
	reserved int64                   // bytes
	mapped   int64                   // of the map and its names, when they were last looked at, bytes
}

// newLedger returns the ledger of a load within some options.
func newLedger(o ReadOptions) *ledger {
	l := &ledger{most: o.MaxSteps, steps: o.Steps, reserve: o.Reserve}
	if l.steps == nil {
		l.steps = new(atomic.Int64)
	}
	return l
}

// work takes steps.
func (l *ledger) work(steps int64) error {
	if l == nil || l.most <= 0 {
		return nil
	}
	if l.steps.Add(steps) > l.most {
		return fmt.Errorf("%w: reading it takes more than %d steps, which are bytes when decompressed and frames", ErrTooLarge, l.most)
	}
	return nil
}

// grain is how much memory is reserved at once, bytes.
const grain = 1 << 20

// cover reserves memory for what a load holds beside its map, unless there is enough already.
func (l *ledger) cover(held int64) error {
	if l == nil || l.reserve == nil || held+l.mapped <= l.reserved {
		return nil
	}
	want := (held + l.mapped + grain - 1) / grain * grain
	if err := l.reserve(want); err != nil {
		return err
	}
	l.reserved = want
	return nil
}
