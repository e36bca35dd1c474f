package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// follower attaches to one process of a target, and samples it until it ends. The follower of an
// endpoint or of the whole host has the number 0, and no facts.
//
//	means … settled         never change, or lock themselves
//	cancel                  under the target's lock
//	identity … unreadable   the goroutine of run; identity and program do not change while a session runs
//	owner                   under mu
type follower struct {
	*means
	aim
	facts   process.Facts
	shelf   *shelf
	waits   waits
	tally   *tally
	life    *supervise.Life
	session atomic.Pointer[session] // that runs
	first   attempt

	cancel  context.CancelCauseFunc // nil: not started
	stopped error                   // why it was cancelled; nil: it has ended by itself

	identity process.Identity // of the process, before it was read
	broke    time.Duration    // CPU time of the process when its session ended by an error; 0: none did
	program  engine.Program   // that the process ran then

	unreadable bool // no engine could read the program in the last attempt

	mu    sync.Mutex
	owner process.Owner // of the process, when it was looked at last
}

// State is the state of a target or of one of its processes.
type State string

// The states.
const (
	Waiting   State = "waiting"   // for a process, or for a place
	Attaching State = "attaching" // symbols are loaded
	Sampling  State = "sampling"
	Refused   State = "refused" // with a reason, and tried again
	Paused    State = "paused"
	Ended     State = "ended" // the process of an attached target
)

// stateOf names the state of a process for readers, who learn of one that costs a thread by its reason.
func stateOf(s supervise.State) State {
	switch s {
	case supervise.Opening:
		return Attaching
	case supervise.Open:
		return Sampling
	case supervise.Refused, supervise.Hung:
		return Refused
	}
	return Waiting
}

// attempt is the outcome of a follower's first attempt to attach, for whoever waits for it.
type attempt struct {
	once sync.Once
	done chan struct{}
	err  error
}

// settle notes the outcome, once.
func (a *attempt) settle(err error) {
	a.once.Do(func() {
		a.err = err
		close(a.done)
	})
}

const (
	firstWait, longestWait = time.Second, time.Minute
	jitter                 = 0.2
)

func (t *target) newFollower(facts process.Facts) *follower {
	wait := supervise.Backoff{First: firstWait, Longest: longestWait, Jitter: jitter}
	return &follower{
		means: t.means, aim: t.aim, shelf: t.shelf, waits: waits{shelf: t.beside}, tally: t.tally, facts: facts, owner: facts.Owner,
		life: supervise.NewLife(supervise.Policy{Refused: wait}, time.Now()), first: attempt{done: make(chan struct{})},
	}
}

// run attaches and samples, again and again, until the process has ended or ctx is done.
func (f *follower) run(ctx context.Context) {
	defer f.first.settle(sampler.ErrNoProcess)
	for ctx.Err() == nil {
		ending, life, err := f.sample(ctx)
		if errors.Is(err, errBetter) {
			continue
		}
		if ctx.Err() != nil || f.isOver(ending, life, err) {
			return
		}
		if err == nil {
			err = errors.New(ending.Reason)
		}
		if errors.Is(err, hang.ErrHung) {
			f.endure(ctx, err)
			return
		}
		next := f.putOff(err, life)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(next)):
		}
	}
}

// sample attaches, and samples until the session ends. Its life is 0 if it did not begin.
func (f *follower) sample(ctx context.Context) (ending sampler.Ending, life time.Duration, err error) {
	s, err := f.attach(ctx)
	f.first.settle(err)
	if err != nil {
		return sampler.Ending{}, 0, err
	}
	found := f.lookForBetter(ctx, s)
	ended := f.followWaits(ctx)
	ending, err = s.run(ctx)
	ended()
	if better := found(); better && err == nil && !ending.Exited {
		err = errBetter
	}
	if err != nil && !f.hasNoProcess() {
		f.broke, _ = f.host.clock(f.facts.PID) // 0 of a process that has ended: there is no next session
	}
	return ending, time.Since(s.began), err
}

// isOver reports whether the process needs no further attempt.
func (f *follower) isOver(ending sampler.Ending, life time.Duration, err error) bool {
	now, gone := f.host.facts(f.facts.PID)
	replaced := gone == nil && now.Started == f.facts.Started && !now.Ended // by exec
	if f.tally.over(f.facts.PID, ending, life, err, replaced) {
		return true
	}
	if !f.unreadable && !f.isAway(err) { // else it was counted
		f.tally.count(func(c *Counters) { c.Failures.count(err) })
	}
	return false
}

// putOff notes why nothing can be sampled now, after a session of such a life, and returns when to try again.
func (f *follower) putOff(err error, life time.Duration) time.Time {
	as, log, level := supervise.Refused, f.log, slog.LevelWarn
	still := f.unreadable
	f.unreadable = errors.Is(err, sampler.ErrProgram)
	switch {
	case f.isAway(err): // perhaps for weeks
		as, log, level = supervise.Waiting, f.details, slog.LevelInfo
	case f.unreadable && f.means.unreadable.Told(f.program):
		log, level = f.details, slog.LevelDebug
	}
	is := f.life.FailAs(time.Now(), as, f.advised(err), life)
	if !still || !f.unreadable { // else nothing is new
		f.tell(is)
	}
	log.Log(context.Background(), level, "cannot sample", "target", f.Name, f.attr(f.facts.PID), "error", err, "next try", is.Next)
	return is.Next
}

// hungLook is the time between two looks whether a process has ended that costs a thread.
const hungLook = 10 * time.Second

// endure waits until a process ends that has cost a thread.
func (f *follower) endure(ctx context.Context, err error) {
	f.tell(f.life.Fail(time.Now(), advice.Add(err, "It costs the daemon a thread, and is not tried again. End the process."), 0))
	f.log.Warn("cannot sample, and does not try again", "target", f.Name, f.attr(f.facts.PID), "error", err)
	tick := time.NewTicker(hungLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if now, err := f.host.facts(f.facts.PID); err != nil || now.Ended || now.Started != f.facts.Started {
				f.tally.end("the process has ended")
				return
			}
		}
	}
}

// tell raises an event about a state.
func (f *follower) tell(is supervise.Standing) {
	text := string(stateOf(is.State))
	if is.Err != nil {
		text += ": " + is.Err.Error()
	}
	f.raise(EventState, "%s", text)
}

func (f *follower) raise(k Kind, format string, args ...any) {
	f.events.raise(f.event(k, fmt.Sprintf(format, args...)))
}

// event returns an event of the process.
func (f *follower) event(k Kind, text string) Event {
	return Event{Kind: k, Target: f.Name, PID: f.facts.PID, Owner: f.ownerNow(), OfHost: f.Match.Host, Text: text}
}

// ownerNow returns the owner of the process when it was looked at last.
func (f *follower) ownerNow() process.Owner {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.owner
}
