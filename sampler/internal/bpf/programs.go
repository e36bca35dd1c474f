package bpf

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// programs opens the Go programs and JVMs of the whole host, one at a time, when their first samples come. A
// program whose files or memory keep a read waiting costs a thread, so there is a bound.
//
//	host … rings      never change, or lock themselves
//	names, turn, full the goroutine of work
//	all others        under mu
type programs struct {
	host    *Host
	options WholeOptions
	wanted  chan *program
	gate    *supervise.Gate
	rings   []*queue.Shared // of the samples of all members
	names   processNames
	turn    int  // of rings: the next member's
	full    bool // no more programs are opened: too many cost a thread
	running sync.WaitGroup

	mu       sync.Mutex
	known    map[programKey]*program
	open     int
	interval time.Duration
	ended    programCounts // of members that have ended
	crowded  int           // programs that found no place so far
	poor     int           // programs that found no memory so far, or lost theirs
}

// programKey identifies a program that a process runs.
type programKey struct {
	pid     uint32
	started uint64
	program uint64 // differs after an exec
}

// program is what is known of a program. The head of its first sample never changes, all others are under
// the mu of programs.
type program struct {
	key    programKey
	first  record
	life   *supervise.Life
	waits  bool // for a look
	seen   time.Time
	member *Source // nil: none

	// Of the member:
	stop    context.CancelFunc
	opened  time.Time
	closing bool // it was stopped, for want of memory
}

// kind says whether the stacks of a program are known.
type kind uint8

const (
	unlooked kind = iota // not looked at yet
	foreign              // neither a Go program nor a JVM
	opaque               // there is no place for it, or its symbols cannot be read
	symbolic             // it has a member
)

// kind returns what the program's life makes it. Between two looks it stays what the last one has found.
func (one *program) kind() kind {
	switch one.life.Is().State {
	case supervise.Open:
		return symbolic
	case supervise.Strange:
		return foreign
	case supervise.Refused, supervise.Hung:
		return opaque
	}
	return unlooked
}

// programCounts are the figures of members.
type programCounts struct {
	counts        sampler.Counts
	lost, corrupt uint64
	pushed        time.Duration
	elided        ccmap.Elided
}

const (
	mostKnown  = 1 << 14 // programs
	mostWanted = 1 << 8  // programs that wait to be looked at; others are when their next samples come
	mostRings  = 16      // as many as there are CPUs: all members together have as many samples at a time
	// knownFor is how long a program without samples is known.
	knownFor = 10 * time.Second
	// unreadFor is how long a program is not looked at after that was in vain.
	unreadFor = time.Minute
	// leastRest is the least time between two looks. There is as much time between them as they take.
	leastRest = 2 * time.Millisecond
)

// again says when a program is looked at again, if it has samples.
var again = supervise.Policy{
	Refused: supervise.Backoff{First: unreadFor, Longest: unreadFor},
	Strange: supervise.Estranged,
}

func newPrograms(h *Host, o WholeOptions) *programs {
	p := &programs{
		host: h, options: o, wanted: make(chan *program, mostWanted), names: make(processNames), interval: o.Interval,
		known: make(map[programKey]*program), gate: supervise.NewGate(supervise.Machine{}, 1, supervise.Estranged),
	}
	for range min(runtime.NumCPU(), mostRings) {
		p.rings = append(p.rings, o.Sink.Queue.Shared())
	}
	return p
}

// of returns what is known of a record's program. One that is new will be looked at.
func (p *programs) of(r *record, now time.Time) kind {
	if r.Flags&kernelThread != 0 {
		return foreign
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	key := programKey{r.Pid, r.Started, r.Program}
	found := p.known[key]
	if found == nil {
		if len(p.known) >= mostKnown {
			return unlooked
		}
		found = &program{key: key, first: *r, life: supervise.NewLife(again, now)}
		p.known[key] = found
	}
	found.seen = now
	if found.member == nil && !found.waits && found.life.Due(now) {
		p.want(found)
	}
	return found.kind()
}

// want makes a program wait for a look. The caller holds mu.
func (p *programs) want(one *program) {
	select {
	case p.wanted <- one:
		one.waits = true
	default:
		delete(p.known, one.key)
	}
}

// sweep forgets the programs that had no sample lately.
func (p *programs) sweep(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, one := range p.known {
		if one.member == nil && now.Sub(one.seen) >= knownFor {
			delete(p.known, key)
		}
	}
}

// start opens programs until ctx is done.
func (p *programs) start(ctx context.Context) { p.running.Go(func() { p.work(ctx) }) }

// wait waits until all members have ended.
func (p *programs) wait() { p.running.Wait() }

func (p *programs) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-p.wanted:
			began := time.Now()
			err := p.look(ctx, one)
			if ctx.Err() != nil {
				return
			}
			p.settle(one, err)
			select {
			case <-ctx.Done():
			case <-time.After(max(time.Since(began), leastRest)):
			}
		}
	}
}

// settle notes the outcome of a look.
func (p *programs) settle(one *program, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	one.waits = false
	switch {
	case err == nil: // it has a member, unless that has ended since
		return
	case process.Gone(err), errors.Is(err, sampler.ErrNoProcess):
		delete(p.known, one.key)
		return
	}
	one.life.Fail(time.Now(), err, 0)
	if !errors.Is(err, errNoPlace) && !errors.Is(err, sampler.ErrNotManaged) {
		p.options.Logger.Info("the stacks of a program are not known", "pid", one.key.pid, "error", err)
	}
	if p.gate.IsFull(anyOwner) && !p.full {
		p.full = true
		p.options.Logger.Warn("no more programs are opened: too many keep their memory or files from being read")
	}
}

// anyOwner stands for the owners of all programs: threads are bounded for all of them together.
const anyOwner = 0

// errNoPlace says that there is no place or memory for a program.
var errNoPlace = errors.New("there is no place for the program's symbols")

// look opens a program, if it is a Go program or a JVM.
func (p *programs) look(ctx context.Context, one *program) error {
	pid := int(one.key.pid)
	if pid == os.Getpid() { // it would sample its own sampling
		return sampler.ErrNotManaged
	}
	return p.gate.Attempt(ctx, supervise.Process{PID: pid, Started: one.key.started, Owner: anyOwner}, supervise.Opener{
		Check: func(supervise.Pin) error {
			stat, err := process.ReadStat(pid)
			if err == nil && (stat.Started != one.key.started || stat.Zombie()) {
				err = sampler.ErrNoProcess
			}
			return err
		},
		Open: func(supervise.Pin, process.FileID) error {
			if !p.admit(one) {
				return errNoPlace
			}
			return p.openMember(ctx, one)
		},
	})
}

// admit reports whether there are a place and memory for another program. It counts one that is refused
// once.
func (p *programs) admit(one *program) bool {
	hasMemory := (p.options.HasMemory == nil || p.options.HasMemory()) && p.hasRoom(time.Now())
	p.mu.Lock()
	defer p.mu.Unlock()
	full := p.open >= p.options.MaxPrograms
	switch {
	case one.kind() == opaque: // it was refused before
	case full:
		p.crowded++
	case !hasMemory:
		p.poor++
	}
	return !full && hasMemory
}

// warning says how many programs were refused; empty: none.
func (p *programs) warning() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
	if p.crowded > 0 {
		all = append(all, fmt.Sprintf("%d programs have no stacks: %d others had theirs already, which is the most", p.crowded, p.options.MaxPrograms))
	}
	if p.poor > 0 {
		all = append(all, fmt.Sprintf("%d programs have no stacks: there was no memory for their symbols", p.poor))
	}
	return strings.Join(all, "; ")
}

// openMember attaches to a program, and runs the source until the program ends or ctx is done.
func (p *programs) openMember(ctx context.Context, one *program) error {
	o := sampler.ProcessOptions{
		PID: int(one.key.pid), Sink: p.options.Sink, Watchpoints: -1, HitBudget: -1, NoLabels: p.options.NoLabels,
		Logger: slog.New(slog.DiscardHandler),
	}
	p.mu.Lock()
	o.Interval = p.interval
	p.mu.Unlock()
	frame := p.names.frame(&one.first, p.options.Sink.Names)
	ring := p.rings[p.turn%len(p.rings)]
	p.turn++
	s, err := p.host.attach(ctx, o, &Source{process: &frame, shared: ring, seat: seat{member: true, program: one.key.program}})
	if err != nil {
		return err
	}
	if s.entry.Started != one.key.started {
		return errors.Join(sampler.ErrNoProcess, s.Close())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	ctx, one.stop = context.WithCancel(ctx)
	one.member, one.opened = s, time.Now()
	one.life.Succeed(one.opened)
	p.open++
	p.running.Go(func() {
		if _, err := s.Run(ctx); err != nil {
			p.options.Logger.Info("the stacks of a program are not known any more", "pid", o.PID, "error", err)
		}
		p.end(one)
	})
	return nil
}

// end keeps the figures of a member that has ended.
func (p *programs) end(one *program) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ended.add(one.member)
	one.stop()
	one.member = nil
	p.open--
	if !one.closing {
		one.life.End(time.Now(), nil)
		delete(p.known, one.key)
		return
	}
	one.closing = false
	one.life.Fail(time.Now(), errNoPlace, 0)
}

// closeRings gives the rings back. All members must have ended.
func (p *programs) closeRings() {
	for _, r := range p.rings {
		r.Close()
	}
}

// add adds the figures of a member.
func (c *programCounts) add(s *Source) {
	st := s.t.Stats("")
	for i, n := range st.Counts {
		c.counts[i] += n
	}
	c.lost += st.Loss.Source
	c.corrupt += st.Loss.Corrupt
	c.pushed += time.Duration(s.t.Pushed.Load())
	c.elided = c.elided.Add(st.Elided)
}

// sum returns the figures of all members. The caller holds mu.
func (p *programs) sum() programCounts {
	all := p.ended
	for _, one := range p.known {
		if one.member != nil {
			all.add(one.member)
		}
	}
	return all
}

// pushed returns the CPU time that samples of members in the queue stand for.
func (p *programs) pushed() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum().pushed
}

// stats returns the figures of all members, and how many programs had samples lately.
func (p *programs) stats() (counts sampler.Counts, lost, corrupt uint64, known int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.sum()
	return all.counts, all.lost, all.corrupt, len(p.known)
}

// elided returns how many frames deep stacks of all members lack.
func (p *programs) elided() ccmap.Elided {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sum().elided
}

// setInterval changes the interval of all members, and of those that are opened later.
func (p *programs) setInterval(d time.Duration) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.interval = d
	var all error
	for _, one := range p.known {
		if one.member != nil {
			all = errors.Join(all, one.member.SetInterval(d))
		}
	}
	return all
}
