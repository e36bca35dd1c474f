package hotspot

import (
	"context"
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Trial is hints in force in a running JVM.
//
//	stack, jvm      Begin, Apply; then the goroutine of guard; End after that
//	watch           locks itself
//	exited, failed  the goroutine of record, before recorded is closed
type Trial struct {
	jvm       *attach.Target
	stack     *stack
	watch     *watch
	recording *engine.Recording

	record   context.CancelFunc // ends the recording
	recorded chan struct{}      // closed when the recording has ended
	exited   bool               // the JVM has ended
	failed   error              // the recording has

	guard   context.CancelFunc // ends the goroutine; nil: none runs
	guarded chan error         // has its error at its end
}

// Begin starts to record what the compiler does, which takes about a second. It applies no
// hint yet.
func Begin(ctx context.Context, pid int, hints []Hint) (*Trial, error) {
	if len(hints) == 0 {
		return nil, fmt.Errorf("begin a trial: %w", ErrNoHints)
	}
	t := &Trial{watch: newWatch(hints)}
	if err := t.open(ctx, pid); err != nil {
		if t.jvm != nil {
			t.jvm.Close()
		}
		return nil, err
	}
	recording, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.record, t.recorded = stop, make(chan struct{})
	go func() {
		defer close(t.recorded)
		t.exited, t.failed = t.recording.Run(recording, t.watch.readPiece)
	}()
	return t, nil
}

func (t *Trial) open(ctx context.Context, pid int) (err error) {
	if t.jvm, err = attach.Open(pid); err == nil {
		t.stack = newStack(t.jvm)
		err = t.stack.clear(ctx)
	}
	if err != nil {
		return fmt.Errorf("attach to process %d: %w", pid, engine.ClassifyAttach(err))
	}
	t.recording, err = engine.Record(ctx, pid, settings)
	return err
}

// Apply adds the directives. From then on a root that is thrown away too often loses its
// hints, and one that was, has none. thrown says how often each has been by now, by the texts of
// roots, as far as it is known; see [Thrown].
func (t *Trial) Apply(ctx context.Context, thrown map[string]int64) error {
	t.watch.before(thrown)
	t.watch.exhausted()
	guard, stop := context.WithCancel(context.WithoutCancel(ctx))
	t.guard, t.guarded = stop, make(chan error, 1)
	if err := t.push(ctx); err != nil {
		t.guarded <- nil
		return err
	}
	t.watch.inForce(t.stack.added.UnixNano())
	go func() { t.guarded <- t.watchOver(guard) }()
	return nil
}

// push adds the directives of the hints that are to be in force.
func (t *Trial) push(ctx context.Context) error {
	hints := t.watch.remaining()
	if len(hints) == 0 {
		return nil
	}
	return t.stack.push(ctx, hints)
}

// watchOver withdraws hints of roots that are thrown away too often. Directives are a stack:
// all go, and the others come back.
func (t *Trial) watchOver(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.watch.changed:
		}
		if !t.watch.exhausted() {
			continue
		}
		err := t.stack.withdraw(ctx)
		if err == nil {
			err = t.push(ctx)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// Settled is closed when each hint has an outcome.
func (t *Trial) Settled() <-chan struct{} { return t.watch.settled }

// Ended is closed when the JVM has ended, or its recording.
func (t *Trial) Ended() <-chan struct{} { return t.recorded }

// Results says what became of the hints so far, in their order.
func (t *Trial) Results() []Result { return t.watch.list() }

// Lost returns how many bytes of events the JVM says it has lost: with them outcomes can be.
func (t *Trial) Lost() uint64 { return t.watch.bytesLost() }

// End removes the directives, unless they are to be kept, and stops the recording. Compiled
// code stays as it is.
func (t *Trial) End(keep bool) error {
	var err, failed error
	if t.guard != nil {
		t.guard()
		failed = <-t.guarded
		if !keep {
			err = t.stack.withdraw(context.Background())
		}
	}
	t.record()
	<-t.recorded
	t.jvm.Close()
	if t.exited { // and its directives with it
		return t.failed
	}
	return errors.Join(failed, err, t.failed)
}
