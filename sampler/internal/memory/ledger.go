package memory

import (
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// slot is what is known of the goroutine in one place of the runtime's list, and of its wait.
type slot struct {
	trail
	since  int64 // it has waited since then, CLOCK_MONOTONIC, ns
	held   int64 // time of the wait that is not told yet, ns: it may turn out to be idle
	stack  int32 // of the wait; noStack: not known
	steady uint8 // ticks in a row that have found the same wait
	idle   bool
}

const noStack = -1

const (
	idleTicks  = 2 // that must find the same number before a wait is idle
	mostLooks  = 512
	idleLooks  = 128 // at idle goroutines without a stack, in a tick
	mostSteady = 1<<8 - 1
)

// ledger has the goroutines' waits, and makes samples of them. It belongs to the goroutine of Run.
type ledger struct {
	all     tasks
	stacks  *stacks
	answers map[uint64]bool // entries of functions that answer requests
	running bool            // it is sampled, too
	idle    int64           // waits that last longer are idle, ns; 0: none is
	slots   []slot
	last    int64 // time of the last tick
	now     int64
	elapsed int64
	cost    time.Duration // of a tick
	ticks   int

	active, unseen []int32 // places to look at: moved on since the last tick or running, and idle without a stack
	shares         []int64 // of the active ones that are looked at, how many each stands for
	again          []gone  // that went on before they were read: they get a second look
	places         []int32 // of them
	comers         comers
	out            []ccmap.Sample
	stack          process.Stack // scratch
	spread         spread
	stats          sampler.Stats
}

func newLedger(o sampler.ProcessOptions, all tasks, p process.Runtime) *ledger {
	return &ledger{all: all, stacks: newStacks(o, all, p), running: o.Unit == Wall, idle: int64(max(o.Idle, 0)), spread: make(spread)}
}

// tick takes a census, and looks at goroutines.
func (l *ledger) tick(ctx context.Context, now int64) {
	if l.last != 0 {
		l.elapsed = now - l.last
	}
	l.last, l.now = now, now
	if l.stacks.full() {
		l.settle(now)
		l.stacks.forget()
	}
	if l.all.Refresh() != nil {
		return // it ends, or is no more what it was
	}
	n, _ := l.all.Len()
	l.slots = slices.Grow(l.slots, n-len(l.slots))[:n]
	l.comers.begin(n)
	l.active, l.unseen, l.stats.Threads = l.active[:0], l.unseen[:0], 0
	l.all.Census(func(place int, g *process.Task) bool {
		l.see(int32(place), g)
		return ctx.Err() == nil
	})
	if l.all.Reuses() {
		l.active = l.comers.add(l.active)
	}
	l.choose()
	l.comers.looked = append(l.comers.looked[:0], l.active...)
	l.look()
	l.all.Look(l.unseen[:min(len(l.unseen), idleLooks)], func(place int32, k *process.TaskLook) { l.note(place, k, 0) })
	l.stacks.tellIdle(l.sample)
	l.spread.tick(l.elapsed)
}

// gone is a task that went on while it was read.
type gone struct {
	task process.Task // as it was before
	owed int64        // the time that it stands for, ns
}

// look looks at the active ones: what each does then is what counts, for those that the census has seen running, too. So
// as many are seen to begin a wait since the census as to end one. One that goes on while it is read gets a second look,
// at what it does then. As many go from one wait to the next as from the next to a third, so no wait gets too much. One
// that has ended since the census counts no more, where those are found that have begun since.
func (l *ledger) look() {
	l.again, l.places = l.again[:0], l.places[:0]
	at, reuses := 0, l.all.Reuses()
	l.all.Look(l.active, func(place int32, k *process.TaskLook) {
		weight := l.elapsed * l.shares[at]
		at++
		switch {
		case k.State == process.Dead && reuses:
		case k.State != process.Running && (!k.Read || k.Moved):
			l.again, l.places = append(l.again, gone{k.Task, weight}), append(l.places, place)
		default:
			l.note(place, k, weight)
		}
	})
	at = 0
	l.all.Look(l.places, func(place int32, k *process.TaskLook) {
		was := &l.again[at]
		at++
		if k.State == process.Dead && reuses {
			l.noteMoved(&l.slots[place], &was.task, was.owed) // there was one at the first look
			return
		}
		l.note(place, k, was.owed)
	})
}

// see takes in what the census says of a goroutine.
func (l *ledger) see(place int32, g *process.Task) {
	s := &l.slots[place]
	l.comers.seen.set(place)
	if l.all.Own(g) {
		return
	}
	l.stats.Threads++
	if !l.continues(s, g) {
		l.end(s)
		wary := s.wary
		*s = slot{trail: trailOf(g), since: l.now, stack: noStack}
		s.wary = wary
		if g.Since > 0 && g.State == process.Waiting {
			s.since = min(s.since, g.Since)
		}
	}
	switch {
	case g.State == process.Running:
		l.active = append(l.active, place)
	case s.idle && s.stack != noStack:
		l.stacks.all[s.stack].idle += l.elapsed
	case l.isIdle(s, g):
		l.becomesIdle(s)
		if s.stack == noStack {
			l.unseen = append(l.unseen, place)
		}
	case s.stack != noStack:
		l.hold(s, l.elapsed)
	default:
		l.active = append(l.active, place)
	}
}

// continues reports whether a task is still in the wait that its slot has.
func (l *ledger) continues(s *slot, t *process.Task) bool {
	if !s.trail.continues(t) {
		return false
	}
	s.steady = min(s.steady, mostSteady-1) + 1
	return true
}

// isIdle reports whether a wait is idle, outside of a request.
func (l *ledger) isIdle(s *slot, g *process.Task) bool {
	return l.idle > 0 && s.steady >= idleTicks && l.now-s.since > l.idle && (s.stack == noStack || !l.stacks.all[s.stack].request)
}

// becomesIdle moves the time of a wait so far to idle time.
func (l *ledger) becomesIdle(s *slot) {
	s.idle = true
	l.stacks.addIdle(s.stack, s.held+l.elapsed)
	s.held = 0
}

// hold adds time to a wait. What cannot become idle is told at once.
func (l *ledger) hold(s *slot, weight int64) {
	switch of := &l.stacks.all[s.stack]; {
	case l.idle == 0 || of.request:
		l.tell(s.stack, weight)
	case of.rests:
		of.idle += weight
	default:
		s.held += weight
	}
}

// end tells the time of a wait that is over.
func (l *ledger) end(s *slot) {
	if s.held > 0 && s.stack != noStack {
		l.tell(s.stack, s.held)
	}
	s.held = 0
}

// settle tells the time of all waits so far.
func (l *ledger) settle(now int64) {
	l.now = max(l.now, now)
	for i := range l.slots {
		l.end(&l.slots[i])
		l.slots[i].stack, l.slots[i].idle = noStack, false
	}
	l.stacks.tellIdle(l.sample)
}

// choose leaves at most mostLooks active goroutines: one out of each of as many strata.
func (l *ledger) choose() {
	n := len(l.active)
	k := min(n, mostLooks)
	l.shares = l.shares[:0]
	for i := range k {
		from, to := i*n/k, (i+1)*n/k
		l.active[i] = l.active[from+rand.IntN(to-from)]
		l.shares = append(l.shares, int64(to-from))
	}
	l.active = l.active[:k]
}

// run takes in a goroutine that runs, and stands for a time.
func (l *ledger) run(t *process.Task, weight int64) {
	if l.running {
		l.all.Outset(t, l.answers, &l.stack)
		l.tell(l.stacks.add(frameRunning, &l.stack), weight)
	}
}

// note takes in a look at a goroutine that stands for a time. It may be another one than the census has seen there.
func (l *ledger) note(place int32, k *process.TaskLook, weight int64) {
	s := &l.slots[place]
	if k.ID != s.id && l.all.Own(&k.Task) {
		return
	}
	if k.State == process.Running {
		l.run(&k.Task, weight)
		return
	}
	if !k.Read || k.Moved {
		l.noteMoved(s, &k.Task, weight)
		return
	}
	reason := l.stacks.reason(k)
	stack := l.stacks.add(reason, k.Stack)
	if l.stacks.all[stack].hidden {
		return
	}
	if k.Stack.Rooted {
		l.stats.Counts[sampler.Rooted]++
	}
	if before := s.trail; !before.continues(&k.Task) || s.wary > 0 {
		if of := &l.stacks.all[stack]; of.rests && !of.request && l.idle > 0 {
			of.idle += weight
			return
		}
		l.tell(stack, weight)
		return
	}
	if s.stack = stack; s.idle && l.stacks.all[stack].request {
		s.idle = false
	}
	if !s.idle {
		l.hold(s, weight)
	}
}

// noteMoved takes in a goroutine that has gone on while it was read. It keeps the reason that the census has told.
func (l *ledger) noteMoved(s *slot, t *process.Task, weight int64) {
	l.stats.Counts[sampler.Truncated]++
	was := process.Task{State: s.state, Reason: s.reason}
	if t.State != process.Dead && t.ID != s.id {
		was = *t // the census has seen another one
	}
	if was.State == process.Running && !l.running {
		return
	}
	var outset *process.Stack
	if t.State != process.Dead && l.all.Outset(t, l.answers, &l.stack) {
		outset = &l.stack
	}
	l.tell(l.stacks.moved(&was, outset), weight)
}

// tell makes a sample of a stack.
func (l *ledger) tell(stack int32, weight int64) {
	if of := &l.stacks.all[stack]; of.entry != ccmap.NoMethod {
		l.spread.add(of.entry, weight)
	}
	if weight > 0 {
		l.sample(l.stacks.all[stack].frames, uint64(stack), weight, l.stacks.all[stack].truncated)
	}
}

// threadOfStack keeps ids of threads apart from addresses: a sample is of a stack, and not of one goroutine.
const threadOfStack = process.OSThread

func (l *ledger) sample(frames []ccmap.Frame, stack uint64, weight int64, truncated bool) {
	l.out = append(l.out, ccmap.Sample{
		Frames: frames, Thread: threadOfStack | stack, Time: l.now, Weight: weight, Fresh: ccmap.FreshUnknown, Truncated: truncated,
	})
}

// push hands the samples over.
func (l *ledger) push(push func(*ccmap.Sample)) {
	for i := range l.out {
		push(&l.out[i])
	}
	l.stats.Counts[sampler.Samples] += uint64(len(l.out))
	l.drop()
}

// drop forgets the samples that were not handed over.
func (l *ledger) drop() { l.out = l.out[:0] }
