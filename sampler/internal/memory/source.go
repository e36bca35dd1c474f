package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/goproc"
)

// Engine is the name of the engine in profiles.
const Engine = "memory"

// Units of the engine's samples.
var (
	Wait = ccmap.NewUnit("wait", "nanoseconds") // time of goroutines and threads of Java that wait
	Wall = ccmap.NewUnit("wall", "nanoseconds") // … that wait or run
)

// Source samples the goroutines of one process, or the threads of Java.
//
//	interval         atomic; asked for, ns
//	period           atomic; in force, ns. Run writes it
//	target, stats    atomic; Run writes, any goroutine reads
//	all others       Open, then the goroutine of Run
type Source struct {
	interval, period atomic.Int64
	target           atomic.Pointer[ccmap.Target]
	stats            atomic.Pointer[sampler.Stats]

	o       sampler.ProcessOptions
	watch   *hang.Watch
	pidfd   int
	what    string // is sampled
	process process.Runtime
	all     tasks // nil: the program has not begun
	ledger  *ledger
	entries entries
	budget  float64 // part of a core; 0: no bound
}

var (
	_ sampler.Source   = (*Source)(nil)
	_ sampler.Tunable  = (*Source)(nil)
	_ sampler.Counting = (*Source)(nil)
)

// defaultBudget is the part of a core that the engine takes.
const defaultBudget = 0.01

// Open attaches to a process. Errors wrap those of package sampler.
func Open(ctx context.Context, o sampler.ProcessOptions) (*Source, error) {
	o, err := o.WithDefaults(Wait, Wall)
	if err != nil {
		return nil, err
	}
	if o.Unit == ccmap.CPUTime {
		return nil, fmt.Errorf("attach to process %d: waits are what is sampled, and not CPU time: %w", o.PID, sampler.ErrUnsupported)
	}
	s := &Source{o: o, watch: new(hang.Watch), pidfd: -1, budget: o.MaxHostOverhead}
	if s.budget == 0 {
		s.budget = defaultBudget
	}
	s.interval.Store(int64(o.Interval))
	s.period.Store(int64(o.Interval))
	s.stats.Store(&sampler.Stats{Interval: o.Interval})
	if err := s.open(ctx); err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, errors.Join(err, s.Close()))
	}
	return s, nil
}

// open finds the goroutines. The watch gives up a target that keeps a read waiting.
func (s *Source) open(ctx context.Context) (err error) {
	if s.pidfd, err = process.Open(s.o.PID); err != nil {
		return err
	}
	if s.process, err = openRuntime(ctx, s.o, s.watch); err != nil {
		return err
	}
	s.what = whatOf(s.process)
	s.describe()
	err = s.find(ctx)
	for tries := 0; errors.Is(err, goproc.ErrNotYet) && tries < triesAtOpen && s.hasBegun(); tries++ {
		time.Sleep(pauseOfTries)
		err = s.find(ctx)
	}
	if errors.Is(err, goproc.ErrNotYet) && !s.hasBegun() {
		return nil
	}
	if errors.Is(err, goproc.ErrNotYet) {
		return process.As(err, sampler.ErrUnsupported)
	}
	return err
}

// A runtime that has begun has its goroutines within ms, and they may be busy when they are looked at.
const (
	triesAtOpen  = 100
	pauseOfTries = 10 * time.Millisecond
)

// hasBegun reports whether a program has had what a start takes.
func (s *Source) hasBegun() bool {
	f, err := process.FactsOf(s.o.PID)
	if err != nil {
		return true
	}
	begin, err := f.Begin()
	if err != nil {
		return true
	}
	stat, err1 := process.ReadStat(s.o.PID)
	used, err2 := process.ReadCPUTimes(s.o.PID)
	return err1 != nil || err2 != nil || started(time.Since(begin), used.All, stat.Stopped())
}

// started reports whether a program of an age that has had so much CPU time is beyond its start, which takes tens of
// ms of CPU time. A busy machine gives them late. One that is stopped, as 'run' holds it until it is sampled, goes on later.
func started(age, used time.Duration, stopped bool) bool {
	const least, enough, longest = 2 * time.Second, 200 * time.Millisecond, time.Minute
	return age > longest || age > least && used > enough && !stopped
}

// find finds the goroutines of a program that has begun.
func (s *Source) find(ctx context.Context) error {
	all, err := tasksOf(ctx, s.process, process.MemoryOf(s.o.PID, s.watch))
	if err != nil {
		return err
	}
	s.all, s.ledger = all, newLedger(s.o, all, s.process)
	if p, ok := s.process.(*goproc.Process); ok {
		s.ledger.answers = s.entries.find(ctx, s.o, p)
	}
	s.describe()
	return nil
}

func (s *Source) describe() {
	t := process.DescribeBuild(s.o.PID, s.process)
	s.target.Store(&t)
}

// Close frees a source whose Run is not called.
func (s *Source) Close() error {
	s.entries.close()
	if s.process != nil {
		s.process.Close()
	}
	if s.pidfd >= 0 {
		unix.Close(s.pidfd)
	}
	s.process, s.pidfd = nil, -1
	return nil
}

// Info describes the source.
func (s *Source) Info() sampler.Info {
	of := "waits of " + s.what
	if s.o.Unit == Wall {
		of = s.what + ", waiting and running"
	}
	return sampler.Info{Target: *s.target.Load(), Engine: Engine, Unit: s.o.Unit, Of: of, Sink: s.o.Sink}
}

// Stats returns the counts so far.
func (s *Source) Stats() sampler.Stats { return *s.stats.Load() }

// Counted returns the calls of functions that answer requests. Any goroutine may call it.
func (s *Source) Counted() ([]ccmap.Point, uint64) { return s.entries.counted() }

// SetInterval changes the least time between two ticks. It is in force from the next tick on.
func (s *Source) SetInterval(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("set interval to %v: not positive", d)
	}
	s.interval.Store(int64(d))
	return nil
}

// Run samples until the context is done, or the target has ended or has replaced itself by another program.
func (s *Source) Run(ctx context.Context) (ending sampler.Ending, err error) {
	local := s.o.Sink.Queue.Ring()
	defer local.Close()
	hung := s.watch.Run(ctx, func() {
		runtime.LockOSThread()                                       // for good: the thread ends with its timers
		_ = unix.Prctl(unix.PR_SET_TIMERSLACK, exactTimers, 0, 0, 0) // without it, ticks join the target's own timers
		ending, err = s.run(ctx, func(smp *ccmap.Sample) { local.PushWaiting(smp, ctx.Done()) }, local.Publish)
	})
	if hung != nil {
		return sampler.Ending{}, fmt.Errorf("sample process %d: %w", s.o.PID, hung)
	}
	return ending, errors.Join(err, s.Close())
}

const (
	exactTimers = 1 // ns
	// lookUp is how often a wait for the next tick looks for its end.
	lookUp = 50 * time.Millisecond
	// renewEvery is how often look-ups of symbols get their share of time.
	renewEvery = time.Second
	// patience is how long a program may take to begin, longer where the machine has no CPU time for it.
	patience = 10 * time.Second
)

func (s *Source) run(ctx context.Context, push func(*ccmap.Sample), publish func()) (sampler.Ending, error) {
	s.process.Bound(ctx)
	clock := sampler.NewClock()
	begin, renewed := clock.Now(), clock.Now()
	if s.ledger != nil {
		s.ledger.last, s.entries.begin = begin, begin // the time until the first tick counts
	}
	for next := begin; ; next += s.period.Load() {
		next = max(next, clock.Now()-s.period.Load()) // after a stall, do not catch up
		at := next + rand.Int64N(max(s.period.Load(), 1))
		if ended := s.sleep(ctx, &clock, at); ended != "" {
			if s.all != nil && ended == stopped && s.process.SameProgram() == nil {
				s.ledger.tick(context.WithoutCancel(ctx), clock.Now()) // for the time since the last one
			}
			return s.end(ended, &clock, push, publish), nil
		}
		if s.all == nil {
			if err := s.find(ctx); err != nil && (!errors.Is(err, goproc.ErrNotYet) || clock.Now()-begin > int64(patience) && s.hasBegun()) {
				return sampler.Ending{}, fmt.Errorf("sample process %d: %w", s.o.PID, err)
			}
			continue
		}
		cost := threadTime()
		if now := clock.Now(); now-renewed >= int64(renewEvery) {
			renewed = now
			s.process.Renew(time.Now())
			if bodied, ok := s.process.(process.Bodied); ok {
				bodied.HashBodies(bodiesAtOnce)
			}
			_, _ = s.process.Refresh(ctx, time.Now())
		}
		s.ledger.tick(ctx, clock.Now())
		if s.process.SameProgram() != nil && !process.Ended(s.pidfd) {
			s.ledger.drop() // of another program, perhaps another user's
			return s.end("target replaced itself by another program (exec)", &clock, push, publish), nil
		}
		s.ledger.push(push)
		s.entries.tick(clock.Now(), s.ledger.last, false)
		publish()
		s.pace(threadTime() - cost)
		s.publish()
	}
}

// bodiesAtOnce bounds the code that is hashed each renewEvery, bytes.
const bodiesAtOnce = 16 << 10

// sleep waits until a time. It returns why the session ends, "" if it goes on.
func (s *Source) sleep(ctx context.Context, clock *sampler.Clock, at int64) string {
	for {
		switch {
		case ctx.Err() != nil:
			return stopped
		case process.Ended(s.pidfd):
			return process.ExitReason(s.o.PID, s.pidfd)
		}
		now := clock.Now()
		if now >= at {
			return ""
		}
		until := unix.NsecToTimespec(min(at, now+int64(lookUp)))
		_ = unix.ClockNanosleep(unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME, &until, nil) // too early is looked at again
	}
}

const stopped = "stopped"

// end tells the waits that last.
func (s *Source) end(reason string, clock *sampler.Clock, push func(*ccmap.Sample), publish func()) sampler.Ending {
	if s.ledger != nil {
		s.entries.tick(clock.Now(), s.ledger.last, true)
		s.ledger.settle(clock.Now())
		s.ledger.push(push)
		publish()
		s.publish()
	}
	return sampler.Ending{Reason: reason, Exited: reason != stopped}
}

// pace sets the period by what a tick has cost.
func (s *Source) pace(cost time.Duration) {
	s.ledger.cost += (cost - s.ledger.cost) / 4
	s.ledger.ticks++
	s.period.Store(s.periodAfter(s.ledger.ticks, s.ledger.cost))
}

// periodAfter returns the period after so many ticks of such a cost. The first ones do not wait for the budget, but take
// some tenths of a core: until they have told which goroutines are idle, the few that are not would hardly be looked at
// among a million.
func (s *Source) periodAfter(ticks int, cost time.Duration) int64 {
	period := s.interval.Load()
	if s.budget <= 0 {
		return period
	}
	const early = 10 // periods of the first ticks, in what they cost
	affordable := int64(float64(cost) / s.budget)
	if ticks <= idleTicks && s.o.Idle > 0 {
		affordable = min(affordable, max(int64(s.o.Idle), early*int64(cost)))
	}
	return max(period, affordable)
}

// publish makes the counts visible.
func (s *Source) publish() {
	st := s.ledger.stats
	st.Interval = time.Duration(s.period.Load())
	st.Files = append(s.ledger.spread.comments(s.o.Sink.Names), s.entries.comments(s.o.Sink.Names)...)
	n, all := s.all.Len()
	st.NoCalls = "what waits makes none"
	if all > uint64(n) {
		st.Warning = fmt.Sprintf("%d of %d goroutines or threads were read: more are not, to bound memory", n, all)
	}
	if err := virtualUnknown(s.all); err != nil && st.Warning == "" {
		st.Warning = "not all virtual threads that wait are seen: " + err.Error()
	}
	s.stats.Store(&st)
}

// threadTime returns the CPU time of the calling thread.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
