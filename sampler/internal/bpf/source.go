package bpf

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/beat"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/activation"
	"github.com/ccmapd/ccmapd/sampler/internal/runtimes"
	"github.com/ccmapd/ccmapd/sampler/internal/taker"
	"golang.org/x/sys/unix"
)

// Source samples one process. See the package documentation for the pipeline.
//
//	host, owned      set by Open
//	seat             see there
//	took, sampled    atomic
//	takes            the goroutine of Run writes, any reads
//	all others       Open, then the goroutine of Run
type Source struct {
	seat
	t     *taker.Taker
	host  *Host
	owned bool // the host is this source's alone
	watch *hang.Watch

	sampled atomic.Int64              // when the last record was taken, ns since 1970; 0: there was none
	takes   atomic.Pointer[footprint] // as of the last look at the target

	process *ccmap.Frame  // of a program of the whole host
	shared  *queue.Shared // of such programs; nil: the source has a ring of its own
	took    atomic.Int64  // how long the last change of the interval took, ns
	entry   programTarget // as the goroutine of Run wants it

	record  record // reused
	records []byte // reused
	ages    ages
	ran     uint64    // the program that the target ran at its first record
	seen    bool      // there was a record
	checked time.Time // the beat of the last look at the target
	short   bool      // a stack whose end was not known was cut
	watched []uint64  // goroutines that the program knows to be watched; reused
	choice  choice

	cpus     []int               // online
	cpuWatch *perfevent.CPUWatch // nil: verdicts are by watchpoints on threads
	places   []uint32            // reused
}

// Options of a Source.
type Options = sampler.ProcessOptions

var (
	_ sampler.Source   = (*Source)(nil)
	_ sampler.Tunable  = (*Source)(nil)
	_ sampler.Counting = (*Source)(nil)
)

const (
	// longestInterval bounds the interval, and so the time that an interrupt can stand for.
	longestInterval = 10 * time.Second
	// A copy of a stack whose end is not known, as in C, begins with firstStack bytes, and grows by fours
	// to mostStack where stacks turn out to be deeper. Fewer lengths would make all such copies as long as
	// the deepest. A goroutine's stack is copied to its end, or mostStack.
	firstStack, mostStack = 4 << 10, 64 << 10
	// checkEvery is how often the target is looked over.
	checkEvery = time.Second
	// maxWatched bounds the threads of a target that can be watched.
	maxWatched = 512
)

// Open attaches to a running process with a host of its own. Otherwise it is [Host.Open]. The
// kernel verifies the program while the target's symbols are read.
func Open(ctx context.Context, o Options) (*Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	var h *Host
	var refused error
	made := make(chan struct{})
	go func() {
		defer close(made)
		h, refused = newHost(HostOptions{MaxOverhead: o.MaxHostOverhead, Logger: o.Logger}, !runtimes.IsHotSpot(o.PID))
	}()
	s, err := attach(ctx, o, &Source{owned: true}, func() (*Host, error) {
		<-made
		return h, refused
	})
	<-made
	switch {
	case refused != nil: // with another target, too
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, refused)
	case err != nil:
		return nil, errors.Join(err, h.Close())
	}
	return s, nil
}

// Open attaches to a running Go process. Sampling begins at once, and records wait for
// Run, which must therefore follow soon. A Source that is not run must be closed.
//
// The process may be stopped, even right after exec: then its symbols are loaded as soon
// as it has run.
//
// Open ends when ctx is done, and within seconds in any case. ctx has no effect on Run.
// Errors wrap the errors of package sampler, and have the cure.
func (h *Host) Open(ctx context.Context, o Options) (*Source, error) {
	return h.attach(ctx, o, new(Source))
}

// attach is Open for a source whose kind alone is set.
func (h *Host) attach(ctx context.Context, o Options, s *Source) (*Source, error) {
	return attach(ctx, o, s, func() (*Host, error) { return h, nil })
}

// attach opens a source whose kind alone is set. The host may have to be waited for.
func attach(ctx context.Context, o Options, s *Source, host func() (*Host, error)) (*Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	s.ages, s.watch, s.pid = make(ages), new(hang.Watch), uint32(o.PID)
	if hung := s.watch.Run(ctx, func() { err = s.open(ctx, o, host) }); hung != nil {
		err = fmt.Errorf("load symbols: %w", hung)
	}
	if err != nil {
		s.detach()
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, err)
	}
	return s, nil
}

// open opens all parts.
func (s *Source) open(ctx context.Context, o Options, host func() (*Host, error)) error {
	var err error
	if s.t, err = taker.Open(ctx, o, s.watch); err != nil {
		return err
	}
	if s.host, err = host(); err != nil {
		return err
	}
	s.t.Process = s.process
	s.interval = s.host.clamp(o.Interval)
	return s.startSampling(o)
}

// startSampling begins to sample the target that was opened.
func (s *Source) startSampling(o Options) error {
	var err error
	if s.waiter, err = s.newWaiter(); err != nil {
		return err
	}
	stat, err := process.ReadStat(o.PID)
	if process.Ended(s.t.Pidfd) { // the number may be another process's by now
		return sampler.ErrNoProcess
	}
	if err != nil {
		return err
	}
	o.Watchpoints = min(o.Watchpoints, 1) // one at a time
	s.entry = programTarget{
		Started: stat.Started, MaxStack: min(max(firstStack, s.t.StackBytes()), mostStack),
		Kernel: uint32(flagOf(o.KernelNames != nil)),
	}
	s.choice.budget = o.WatchBudget
	s.choose(s.choice.share(1 / s.interval.Seconds())) // of a target that keeps one CPU busy
	s.describeLayout()
	s.told = s.entry
	if err := s.host.join(&s.seat); err != nil {
		return err
	}
	s.followCPUs()
	s.t.Sparse, s.t.NoMappings, s.t.Costs = true, true, s.host.costs
	if err := s.t.Begin(o, s, false); err != nil {
		return err
	}
	s.measure()
	return nil
}

// describeLayout notes where the program finds the descriptors. It reports whether that
// has changed.
func (s *Source) describeLayout() bool {
	d, known := s.t.Descriptors()
	before := s.entry
	s.entry.HasLayout, s.entry.Callbacks = flagOf(known), flagOf(d.Callbacks)
	s.entry.G_m, s.entry.G_schedSp, s.entry.G_bytes = d.Thread, d.SavedSP, d.GoroutineBytes
	s.entry.M_g0, s.entry.M_curg, s.entry.M_bytes = d.Own, d.Current, d.ThreadBytes
	return s.entry != before
}

// flagOf is a C bool.
func flagOf(b bool) uint16 {
	if b {
		return 1
	}
	return 0
}

// Close detaches from the target without sampling. It is only for a Source on which Run
// was not called; Run closes by itself.
func (s *Source) Close() error {
	s.detach()
	if s.owned {
		s.owned = false
		return s.host.Close()
	}
	return nil
}

// detach is Close, but leaves the host open.
func (s *Source) detach() {
	if s.host != nil {
		s.host.forget(&s.seat)
	}
	if s.t != nil {
		s.t.Close()
	}
	if s.host == nil {
		return
	}
	s.host.mu.Lock() // the reader rings
	defer s.host.mu.Unlock()
	if s.waiter != nil {
		s.waiter.Close()
		s.waiter = nil
	}
}

// Run takes records until ctx is done or the target has ended or has replaced itself by
// another program (exec). It detaches before it returns. A target that keeps a read of
// its memory waiting is an error: one thread of this process is then lost until the
// target ends.
func (s *Source) Run(ctx context.Context) (sampler.Ending, error) {
	defer s.Close()
	defer s.openLocal()()
	return s.t.Run(ctx, s.waiter, records{s})
}

// records is a source as the loop of its session sees it.
type records struct{ s *Source }

func (r records) Wait() (exited bool, err error) { return r.s.wait() }
func (r records) Turn(ctx context.Context)       { r.s.turn(ctx) }
func (r records) Stop()                          { r.s.host.leave(&r.s.seat) }
func (r records) Settle()                        { r.s.settle() }
func (r records) TakeLast(ctx context.Context) {
	r.s.host.drain()
	r.s.drainRecords(ctx)
}

// openLocal gives the samples their ring, and returns how to close it.
func (s *Source) openLocal() (done func()) {
	if s.shared != nil {
		s.t.Local = s.shared
		return s.shared.Publish
	}
	own := s.t.Sink.Queue.Ring()
	s.t.Local = own
	return own.Close
}

// wait waits for records, or for other work. A source that owns its host reads the ring
// itself, which saves a wake-up. It reports whether the target has ended.
func (s *Source) wait() (exited bool, err error) {
	now := time.Now()
	patience := min(beat.Until(now, checkEvery), s.t.Patience())
	if !s.owned {
		exited, err = s.waiter.Wait(patience)
		return exited, errors.Join(err, s.host.Err())
	}
	exited, err = s.waiter.Wait(min(patience, beat.Until(now, drainEvery)))
	s.host.look()
	return exited, err
}

// newWaiter returns a waiter for the end of the target, and for records if the source reads.
func (s *Source) newWaiter() (*perfevent.Waiter, error) {
	if s.owned {
		return s.host.newWaiter(s.t.Pidfd)
	}
	return perfevent.NewWaiter(s.t.Pidfd)
}

// turn takes the records that have arrived, and does the other work that is due.
func (s *Source) turn(ctx context.Context) {
	now := time.Now()
	s.drainRecords(ctx)
	s.t.Judge.Expire()
	s.t.Turn(ctx, now)
	s.followCPUs()
	changed := s.describeLayout()
	if at := beat.Of(now, checkEvery); !at.Equal(s.checked) {
		s.checked = at
		s.lookOver()
		changed = s.chooseAnew(now) || changed
	}
	if s.t.WantsMore() && s.short && s.entry.MaxStack < mostStack {
		s.entry.MaxStack = min(4*s.entry.MaxStack, mostStack)
		changed = true
		s.t.Log.Info("stacks are deep: samples carry more of them", "bytes", s.entry.MaxStack)
	}
	if s.tellWatched() || changed {
		s.tell()
	}
}

// choose notes the share of the samples that is chosen.
func (s *Source) choose(share float64) { s.entry.Choose = uint32(share * (1<<32 - 1)) }

// chooseAnew notes that share where it has changed by more than chance, and reports whether it has.
func (s *Source) chooseAnew(now time.Time) bool {
	const much = 1.3
	before := float64(s.entry.Choose)
	share, known := s.choice.look(now)
	if want := share * (1<<32 - 1); !known || before > 0 && want < before*much && want > before/much {
		return false
	}
	s.choose(share)
	return true
}

// tellWatched notes which goroutines the program must wake ccmapd for. It reports
// whether that has changed.
func (s *Source) tellWatched() bool {
	s.watched = s.t.Judge.Watched(s.watched[:0])
	var now [len(s.entry.Watched)]uint64
	copy(now[:], s.watched)
	changed := now != s.entry.Watched
	s.entry.Watched = now
	return changed
}

// tell describes the target to the program anew.
func (s *Source) tell() {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	s.told = s.entry
	if err := s.host.tell(&s.seat); err != nil {
		s.t.Log.Debug("tell program", "error", err)
	}
}

// mostTrim is the largest factor for a weight: where interrupts find a target far too seldom, the
// report must say so.
const mostTrim = 1.1

// lookOver notices an exec that no record has told of, and lets weights follow the clock.
func (s *Source) lookOver() {
	s.t.Balance()
	s.t.Lost.Store(s.inbox.Lost() + s.host.lost(&s.seat))
	if err := s.t.Runtime.SameProgram(); err != nil {
		s.t.Replace()
	}
	s.t.Trim(mostTrim, 0)
	s.measure()
}

// drainRecords makes samples of the records that have arrived. When ctx is done it leaves the rest in the
// inbox. Large stacks take long, so a source without a reader drains the ring meanwhile.
func (s *Source) drainRecords(ctx context.Context) {
	const few = 64
	s.records = s.inbox.Swap(s.emptied(s.records))
	rest := s.records
	if len(rest) > 0 {
		s.sampled.Store(time.Now().UnixNano())
	}
	for taken := 0; len(rest) > 0; taken++ {
		if ctx.Err() != nil {
			s.inbox.PutBack(rest)
			return
		}
		if s.owned && taken%few == few-1 {
			s.host.drain()
		}
		var raw []byte
		raw, rest = next(rest)
		switch {
		case s.record.decode(raw) != nil:
			s.t.Corrupt.Add(1)
		case s.same():
			s.short = s.short || s.record.Flags&cut != 0 && !s.record.endKnown()
			s.choice.taken++
			s.record.moment.CPUTime += s.ages.of(&s.record)
			s.t.Take(ctx, &s.record.moment, s.record.weight(), s.record.Flags&chosen != 0)
		case s.member:
			s.host.giveBack(raw)
		}
	}
}

// same reports whether a record is of the program that the symbols are of.
func (s *Source) same() bool {
	if s.t.Replaced {
		return false
	}
	program := s.record.Program
	if s.seen && s.ran == program {
		return true
	}
	if s.seen || s.t.Runtime.SameProgram() != nil {
		s.t.Replace()
		return false
	}
	s.seen, s.ran = true, program
	return true
}

// settle hands the last samples over and detaches. It counts the records that are lost.
func (s *Source) settle() {
	s.host.drain()
	for rest := s.inbox.Swap(nil); len(rest) > 0; {
		var raw []byte
		if raw, rest = next(rest); s.member {
			s.host.giveBack(raw)
		} else {
			s.inbox.Lose()
		}
	}
	s.t.Lost.Store(s.inbox.Lost() + s.host.lost(&s.seat))
	s.t.Local.Publish()
	s.host.forget(&s.seat)
}

// Engine is the name of the engine in profiles.
const Engine = "bpf"

// Info describes the source. Build id and Go version of a program that was attached to
// before it ran are known only after its first samples. Any goroutine may call it.
func (s *Source) Info() sampler.Info {
	return sampler.Info{Target: s.t.Target(), Engine: Engine, Sink: s.t.Sink}
}

// SetInterval changes the interval before it returns. It is clamped to 10 s, to what
// kernel.perf_event_max_sample_rate and [HostOptions] permit, and to 1 ms, or 100 µs for
// root; the interval in force is in [Source.Stats]. Timers interrupt all CPUs at the shortest
// interval of all sources, and periods are up to 10 % off.
func (s *Source) SetInterval(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("set interval to %v: not positive", d)
	}
	took, err := s.host.setInterval(&s.seat, d)
	if err != nil {
		return fmt.Errorf("set interval to %v: %w", d, err)
	}
	s.took.Store(int64(took))
	return nil
}

// Counted is part of [sampler.Counting].
func (s *Source) Counted() ([]ccmap.Point, uint64) { return s.t.Counted() }

// Stats returns the figures so far. Any goroutine may call it.
func (s *Source) Stats() sampler.Stats {
	s.host.mu.Lock()
	interval := s.interval
	s.host.mu.Unlock()
	st := s.t.Stats("")
	s.host.addTo(&st.Overhead)
	st.Interval, st.LastChange = interval, time.Duration(s.took.Load())
	return st
}

// Interval is part of [taker.Engine].
func (s *Source) Interval() time.Duration {
	s.host.mu.Lock()
	defer s.host.mu.Unlock()
	return s.interval
}

// OpenWatch is part of [taker.Engine]. A watchpoint on CPUs costs the target's switches
// nothing. On many CPUs it takes long to set, and the debug registers of the CPUs may be
// taken: then it is on threads.
func (s *Source) OpenWatch() (activation.Watch, error) {
	w, err := perfevent.OpenCPUWatch(s.t.PID, s.cpus)
	if err == nil {
		s.cpuWatch = w
		return w, nil
	}
	s.t.Log.Info("verdicts by watchpoints on threads", "reason", err)
	return perfevent.OpenWatchpoint(uint32(s.t.PID))
}

// Watchable is part of [taker.Engine].
func (s *Source) Watchable(watches int, of activation.Moment) []uint32 {
	if s.cpuWatch != nil {
		return s.cpusFrom(of.CPU)
	}
	tids, err := process.Threads(s.t.PID)
	if err != nil || watches*len(tids) > maxWatched {
		return nil
	}
	return startingWith(tids, of.TID)
}

// cpusFrom returns the CPUs that are online, with a given one first; none if there are too
// many.
func (s *Source) cpusFrom(first uint32) []uint32 {
	if len(s.cpus) > perfevent.MostCPUs {
		return nil
	}
	s.places = s.places[:0]
	for _, cpu := range s.cpus {
		s.places = append(s.places, uint32(cpu))
	}
	return startingWith(s.places, first)
}

func startingWith(all []uint32, first uint32) []uint32 {
	if i := slices.Index(all, first); i > 0 {
		all[0], all[i] = all[i], all[0]
	}
	return all
}

// followCPUs notices CPUs that went online or offline. The event of a CPU that was offline
// is dead, so all are opened anew for the next verdict.
func (s *Source) followCPUs() {
	cpus := s.host.sampledCPUs()
	if slices.Equal(cpus, s.cpus) {
		return
	}
	s.cpus = cpus
	if s.cpuWatch != nil {
		s.cpuWatch.Close()
	}
}

// Has is part of [taker.Engine].
func (s *Source) Has(tid uint32) bool {
	return !errors.Is(unix.Tgkill(s.t.PID, int(tid), 0), unix.ESRCH)
}
