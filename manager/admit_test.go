package manager

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestAdmit: samples whose question has an error, and all later ones, are in no map, and count as lost.
func TestAdmit(t *testing.T) {
	t.Parallel()
	const samples, refusedAt = 1000, 5
	other := errors.New("the process is another user's")
	for _, test := range []struct {
		err    error
		reason string
	}{
		{other, "stopped: " + other.Error()},
		{fmt.Errorf("look: %w", sampler.ErrNoProcess), "stopped"},
	} {
		synctest.Test(t, func(t *testing.T) {
			pushed := 0
			s := newSession(func(ctx context.Context, r *queue.Ring, names *ccmap.Names) {
				for ; pushed < samples && ctx.Err() == nil; pushed++ {
					r.Push(stack(names, fmt.Sprint("before", pushed/100), "root"))
					time.Sleep(10 * time.Millisecond)
				}
			})
			asked, admitted := 0, 0
			s.config.Admit = func() error {
				if asked++; asked >= refusedAt {
					return test.err
				}
				admitted = pushed + 1 // the source may be between a push and its count
				return nil
			}
			r := s.mustRun(t)
			got, loss := r.Snapshot.Total().Samples, r.Snapshot.Meta().Loss
			if got == 0 || got > int64(admitted) || asked != refusedAt {
				t.Errorf("%v: %d samples in the map of %d that were admitted; asked %d times", test.err, got, admitted, asked)
			}
			if got+int64(loss.Source) != int64(pushed) || loss.Unaccounted != time.Duration(loss.Source)*time.Millisecond {
				t.Errorf("%v: %d samples in the map and %d lost, of %d; %v unaccounted", test.err, got, loss.Source, pushed, loss.Unaccounted)
			}
			if r.Ending.Reason != test.reason || (pushed == samples) != errors.Is(test.err, sampler.ErrNoProcess) {
				t.Errorf("%v: ended by %q after %d samples", test.err, r.Ending.Reason, pushed)
			}
		})
	}
}
