package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
)

// target is a name and a rule, with the processes that fit.
//
//	means … history          never change, or lock themselves
//	filing                   orders the filing of periods; taken before any lock
//	compared                 under filing
//	all others               under mu
type target struct {
	*means
	aim
	rule     config.Rule
	attached *process.Facts // the process of a target that Attach has made; nil: of the configuration
	owned    bool           // the attached process is taken while it has the owner of then: its user may have asked
	shelf    *shelf
	beside   *shelf // the maps of what goroutines wait for
	tally    *tally
	history  *history

	filing   chan struct{} // holds a token while periods are filed
	compared string        // build that was compared with the one before

	mu        sync.Mutex
	followers map[int]*follower // by pid: processes that fit, started or waiting
	hidden    map[int]bool      // processes that may fit, by their names: their executables may not be seen
	paused    bool
	removing  bool      // it has left, and is being filed
	leftOut   int       // processes beyond Max
	ended     time.Time // of an attached process; zero: it lives
	rotation  time.Time // the next one; of a removed target: the next attempt to file it
}

func (m *means) newTarget(c config.Target) *target {
	a := aim{c}
	return &target{
		means: m, aim: a, shelf: &shelf{aim: a, keepsMoments: m.keepsMoments}, beside: &shelf{aim: a, waits: true}, tally: newTally(a), history: new(history),
		filing: make(chan struct{}, 1), followers: make(map[int]*follower), hidden: make(map[int]bool),
	}
}

// fits reports whether the target takes a process.
func (t *target) fits(f process.Facts) bool {
	if t.attached != nil {
		return f.PID == t.attached.PID && f.Started == t.attached.Started && (!t.owned || f.Owner == t.attached.Owner)
	}
	return t.rule.Matches(f)
}

// noteHidden notes whether a process may fit whose executable may not be seen.
func (t *target) noteHidden(f process.Facts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.hidden, f.PID)
	if t.rule.MayMatch(f) {
		t.hidden[f.PID] = true
	}
}

// admit adds a process, unless its executable was neither Go nor a JVM a moment ago.
func (t *target) admit(c candidate) {
	stranger := t.gate.IsStranger(c.file)
	t.tally.setStranger(c.PID, stranger)
	if !stranger {
		t.add(c.Facts)
	}
}

// admitOther adds what stands for an endpoint or for the whole host, if it is not there.
func (t *target) admitOther() {
	if t.hasNoProcess() && len(t.all()) == 0 {
		t.add(process.Facts{UID: process.Unowned.UID, Owner: process.Unowned})
	}
}

// add makes a follower that waits to be started.
func (t *target) add(facts process.Facts) *follower {
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.newFollower(facts)
	t.followers[facts.PID], t.ended = f, time.Time{}
	return f
}

// follower returns the follower of a process, nil if there is none.
func (t *target) follower(pid int) *follower {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.followers[pid]
}

// all returns the followers, the oldest process first.
func (t *target) all() []*follower {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*follower, 0, len(t.followers))
	for _, f := range t.followers {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b *follower) int {
		return cmp.Or(cmp.Compare(a.facts.Started, b.facts.Started), cmp.Compare(a.facts.PID, b.facts.PID))
	})
	return all
}

// schedule starts the followers that there is a place for, the oldest processes first. It asks start for each, which
// says no if there is no place among all targets.
func (t *target) schedule(now time.Time, start func(*target, *follower) bool) {
	all := t.all()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leftOut = 0
	running := 0
	for _, f := range all {
		if f.cancel != nil {
			running++
		}
	}
	for _, f := range all {
		switch delayed, why := t.tally.delayed(); {
		case f.cancel != nil || t.paused:
		case running >= t.Max:
			t.leftOut++
			f.life.Wait(now, errors.New("the target has as many processes as max permits"), time.Time{})
		case now.Before(delayed):
			f.life.Wait(now, why, delayed)
		case !start(t, f):
			f.life.Wait(now, errors.New("as many processes are sampled as budget.targets permits"), time.Time{})
		default:
			running++
		}
	}
}

// waits returns an error if a follower is not started.
func (t *target) waits(f *follower) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f.cancel != nil {
		return nil
	}
	return fmt.Errorf("%w %s: %w", ErrWaits, t.Name, cmp.Or(f.life.Is().Err, errIsPaused))
}

// errIsPaused is why a process waits that waits for nothing else.
var errIsPaused = errors.New("it is paused")

// stop ends the sessions of the target, and forgets the processes that wait.
func (t *target) stop(cause error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for pid, f := range t.followers {
		if f.cancel == nil {
			delete(t.followers, pid)
		} else {
			f.cancel(cause)
		}
	}
}

// left gives up the place of a follower that has ended.
func (t *target) left(f *follower, closing bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.followers[f.facts.PID] == f {
		delete(t.followers, f.facts.PID)
	}
	if t.attached != nil && len(t.followers) == 0 && !t.paused && !closing {
		t.ended = time.Now()
	}
}

// dropEnded forgets processes that have ended, unless their sessions do so.
func (t *target) dropEnded(exist map[int]uint64) {
	t.tally.dropEnded(exist)
	t.mu.Lock()
	defer t.mu.Unlock()
	dropEnded(t.hidden, exist)
	for pid, f := range t.followers {
		if _, lives := exist[pid]; !lives && f.cancel == nil && !t.hasNoProcess() {
			delete(t.followers, pid)
		}
	}
}

// pause ends the sessions, and starts no more. What a program counts meanwhile is left out.
func (t *target) pause() {
	t.mu.Lock()
	t.paused = true
	t.mu.Unlock()
	t.shelf.forgetLook()
	t.stop(errPaused)
}

// resume ends a pause.
func (t *target) resume() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.paused = false
}

// endedFor returns how long the process of an attached target has ended; 0: it lives.
func (t *target) endedFor(now time.Time) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.attached == nil || t.ended.IsZero() {
		return 0
	}
	return now.Sub(t.ended)
}

var (
	errPaused   = errors.New("paused")
	errDetached = errors.New("detached")
	errChanged  = errors.New("the configuration has changed")
)

// start runs a follower in a goroutine of its own. The caller of schedule holds mu.
func (f *follower) start(ctx context.Context, spawn func(func()), left func()) {
	ctx, f.cancel = context.WithCancelCause(ctx)
	f.life.Wait(time.Now(), nil, time.Time{})
	spawn(func() {
		defer left()
		f.run(ctx)
		f.stopped = context.Cause(ctx)
	})
}

// farewell says in which state a follower leaves its target, by how the last process ended.
func (f *follower) farewell(last string) string {
	switch f.stopped {
	case errPaused:
		return string(Paused)
	case errDetached, errChanged:
		last = f.stopped.Error()
	}
	return string(Waiting) + ": " + last
}
