package signals

import (
	"context"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOf: the cause of a context names the signal.
func TestOf(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	if got := Of(ctx); got.Signal != unix.SIGTERM {
		t.Errorf("of a context that no signal has ended: %v", got)
	}
	cancel(Error{unix.SIGINT})
	if got := Of(ctx); got.Error() != "SIGINT" || got.ExitCode() != 130 {
		t.Errorf("%v, exit code %d", got, got.ExitCode())
	}
}

// TestUntilEnds: without a signal, the context lives until it is cancelled.
func TestUntilEnds(t *testing.T) {
	t.Parallel()
	for _, until := range []func(context.Context) (context.Context, context.CancelFunc){Until, UntilInterrupted} {
		ctx, stop := until(t.Context())
		if ctx.Err() != nil {
			t.Errorf("done at once: %v", context.Cause(ctx))
		}
		stop()
		<-ctx.Done()
	}
}
