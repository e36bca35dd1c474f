package taker

import (
	"context"
	"fmt"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// Records are the records that an engine has of one target. Their methods are called in the goroutine of
// [Taker.Run], and Stop and Settle once more where that goroutine hangs.
type Records interface {
	// Wait waits for records, or for other work that is due. It reports whether the target has ended.
	Wait() (exited bool, err error)

	// Turn takes the records that have arrived, and does the other work that is due. When ctx is done it
	// leaves the rest.
	Turn(ctx context.Context)

	// Stop ends sampling. Records may be left.
	Stop()

	// TakeLast takes the records that are left, until ctx is done.
	TakeLast(ctx context.Context)

	// Settle hands the last samples over and detaches. It counts the records that are lost.
	Settle()
}

// Run is the loop of a session: it takes records until ctx is done or the target has ended or has replaced itself
// by another program (exec). The waiter is the one that Wait waits by. A target that keeps a read of its
// memory waiting is an error: one thread of this process is then lost until the target ends.
func (t *Taker) Run(ctx context.Context, waiter *perfevent.Waiter, r Records) (sampler.Ending, error) {
	defer waiter.RingAfter(ctx)()
	var err error
	if hung := t.watch.Run(ctx, func() { err = t.run(ctx, r) }); hung != nil {
		r.Stop()
		r.Settle() // samples need such reads: what is left is lost
		return sampler.Ending{}, fmt.Errorf("sample process %d: %w", t.PID, hung)
	}
	if err != nil {
		return sampler.Ending{}, fmt.Errorf("sample process %d: %w", t.PID, err)
	}
	return t.Ending(), nil
}

func (t *Taker) run(ctx context.Context, r Records) error {
	t.Runtime.Bound(ctx)
	err := t.takeUntilEnd(ctx, r)
	t.finish(r)
	r.Settle()
	return err
}

// takeUntilEnd takes records until ctx is done, the target has ended, or no records can be waited for.
func (t *Taker) takeUntilEnd(ctx context.Context, r Records) error {
	for ctx.Err() == nil && t.Ended == "" {
		exited, err := r.Wait()
		if err != nil {
			return err
		}
		if exited {
			t.Ended = process.ExitReason(t.PID, t.Pidfd)
		}
		r.Turn(ctx)
	}
	return nil
}
