package perf

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler"
)

// Source samples one Go process. See the package documentation for the
// pipeline.
//
//	shortest, kernelReason, better   set by Open
//	threads                          any goroutine
//	drainer                          Open, then the goroutine of Run
type Source struct {
	shortest     time.Duration // least interval
	kernelReason string        // why time in the kernel is not sampled; empty if it is
	better       string        // how to get a better engine; empty: there is none

	threads *threads
	drainer *drainer
}

// Options of a Source.
type Options = sampler.ProcessOptions

var (
	_ sampler.Source   = (*Source)(nil)
	_ sampler.Tunable  = (*Source)(nil)
	_ sampler.Counting = (*Source)(nil)
)

// Open attaches to a running process with rings of its own. Otherwise it is [Rings.Open].
func Open(ctx context.Context, o Options) (*Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return open(ctx, o, newRings(o.Logger), true)
}

// Open attaches to a running Go process. Sampling begins at once, and records wait for Run, which
// must therefore follow soon. A Source that is not run must be closed. A process has one source of
// the same rings at a time.
//
// The process may be stopped, even right after exec: then its symbols are
// loaded as soon as it has run.
//
// Open ends when ctx is done, and within seconds in any case: a process whose
// symbols take longer, or more memory, than any program needs gives an error. ctx
// has no effect on Run.
//
// Errors wrap [sampler.ErrNoProcess], [sampler.ErrNotManaged],
// [sampler.ErrPermission] or [sampler.ErrUnsupported] where one of them is the
// reason, and name the remedy.
func (r *Rings) Open(ctx context.Context, o Options) (*Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	return open(ctx, o, r, false)
}

// open opens a source with defaults filled in.
func open(ctx context.Context, o Options, r *Rings, owned bool) (*Source, error) {
	s := &Source{shortest: perfevent.ShortestInterval(), better: o.Better}
	s.threads = newThreads(o.PID, max(o.Interval, s.shortest), o.Logger, &r.files)
	s.drainer = &drainer{
		threads: s.threads, rings: r, owned: owned, seat: seat{pid: uint32(o.PID)},
		watch: new(hang.Watch), windows: newWindows(o.MaxOverhead),
	}
	if err := s.open(ctx, o); err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, errors.Join(err, s.Close()))
	}
	return s, nil
}

// Close detaches from the target without sampling. It is only for a Source on
// which Run was not called; Run closes by itself.
func (s *Source) Close() error {
	s.drainer.close()
	return nil
}

// Engine is the name of the engine in profiles.
const Engine = "perf"

// Info describes the source. Build id and Go version of a program that was attached to
// before it ran are known only after its first samples. Any goroutine may call it.
func (s *Source) Info() sampler.Info {
	return sampler.Info{
		Target:       s.drainer.Target(),
		Engine:       Engine,
		Sink:         s.drainer.Sink,
		NoKernelTime: s.kernelReason,
	}
}

// Run drains the rings until ctx is done, or the target has ended or has replaced itself by another program
// (exec), whose symbols differ and which needs another session. It detaches before it returns. A target that keeps
// a read of its memory waiting is an error: one thread of this process is then lost until the target ends.
func (s *Source) Run(ctx context.Context) (sampler.Ending, error) {
	d := s.drainer
	defer d.close()
	local := d.Sink.Queue.Ring()
	defer local.Close()
	d.Local = local
	return d.Run(ctx, d.seat.waiter, records{d})
}

// SetInterval changes the interval of every thread before it returns. The interval is at
// least 100 µs, and at least the one that kernel.perf_event_max_sample_rate permits;
// [Source.Stats] has the interval in force. Each event's periods are drawn up to
// 30 % around it. A change starts every period anew, with a random part of the
// interval: so the weights still add up to the CPU time, on average, however
// often it is changed.
func (s *Source) SetInterval(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("set interval to %v: not positive", d)
	}
	if err := s.threads.setInterval(max(d, s.shortest)); err != nil {
		return fmt.Errorf("set interval to %v: %w", d, err)
	}
	if bulk := s.threads.bulk(); s.drainer.seat.bulk.Swap(bulk) != bulk {
		s.drainer.rings.wakeReader()
	}
	return nil
}

// Counted is part of [sampler.Counting].
func (s *Source) Counted() ([]ccmap.Point, uint64) { return s.drainer.Counted() }

// Stats returns the counts so far. Any goroutine may call it.
func (s *Source) Stats() sampler.Stats {
	t := s.threads.state()
	st := s.drainer.Stats(t.missed.warning())
	var few string
	st.Unseen, few = switching(st, s.drainer.Switches(), s.better)
	st.Warning = joined(st.Warning, few)
	st.Threads, st.Interval, st.LastChange = t.sampled, t.interval, t.took
	return st
}
