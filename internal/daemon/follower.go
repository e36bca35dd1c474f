package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// follower attaches to one process of a target, and samples it until it ends. The follower of an
// endpoint or of the whole host has the number 0, and no facts.
//
//	d, target, facts        never change
//	settled                 closed when the first attempt has succeeded or failed
//	identity … unreadable   the goroutine of run; identity and program do not change while a session runs
//	all others              under the daemon's mu
type follower struct {
	d      *Daemon
	target *target
	facts  process.Facts

	cancel  context.CancelCauseFunc // nil: not started
	state   State
	since   time.Time // of the state
	reason  string
	cure    string
	next    time.Time // attempt, or start
	delay   backoff
	slot    *slot // with the session
	settled chan struct{}
	first   error // of the first attempt

	owner process.Owner // of the process, when it was looked at last

	identity process.Identity // of the process, before it was read
	broke    time.Duration    // CPU time of the process when its session ended by an error; 0: none did
	program  engine.Program   // that the process ran then

	unreadable bool // no engine could read the program in the last attempt
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

// run attaches and samples, again and again, until the process has ended or ctx is done.
func (f *follower) run(ctx context.Context) {
	defer f.leave()
	for ctx.Err() == nil {
		ending, life, err := f.once(ctx)
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
		f.putOff(err, life)
		select {
		case <-ctx.Done():
		case <-time.After(time.Until(f.nextTry())):
		}
	}
}

// once attaches, and samples until the session ends. Its life is 0 if it did not begin.
func (f *follower) once(ctx context.Context) (ending sampler.Ending, life time.Duration, err error) {
	s, err := f.attach(ctx)
	f.settle(err)
	if err != nil {
		return sampler.Ending{}, 0, err
	}
	found := f.lookForBetter(ctx, s)
	ending, err = s.run(ctx)
	if better := found(); better && err == nil && !ending.Exited {
		err = errBetter
	}
	if err != nil && !f.target.hasNoProcess() {
		f.broke, _ = f.d.host.clock(f.facts.PID) // 0 of a process that has ended: there is no next session
	}
	return ending, time.Since(s.began), err
}

// settle tells Attach how the first attempt went.
func (f *follower) settle(err error) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	select {
	case <-f.settled:
	default:
		f.first = err
		close(f.settled)
	}
}

// isOver reports whether the process needs no further attempt. An endpoint needs another follower
// where it needs another map.
func (f *follower) isOver(ending sampler.Ending, life time.Duration, err error) bool {
	d, t := f.d, f.target
	now, gone := d.host.facts(f.facts.PID)
	replaced := gone == nil && now.Started == f.facts.Started && !now.Ended // by exec
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case err == nil && ending.Exited:
		t.restarts++
		t.ending = ending.Reason
		if !replaced {
			t.delay.lived(time.Now(), life, t.leastLife())
		}
		return true
	case t.endsMap(ending, err):
		t.ending = err.Error()
		t.delay.lived(time.Now(), life, longLife)
		return true
	case f.isAway(err):
		if life > 0 {
			t.restarts++
		}
		return false
	case errors.Is(err, sampler.ErrNoProcess):
		t.ending = "the process has ended"
		return true
	case errors.Is(err, sampler.ErrNotManaged):
		t.strangers[f.facts.PID] = true
		t.ending = err.Error()
		return true
	}
	if !f.unreadable { // else it was counted
		t.counters.Failures.count(err)
	}
	return false
}

// putOff notes why nothing can be sampled now, after a session of such a life, and when to try again.
func (f *follower) putOff(err error, life time.Duration) {
	state, log, level := Refused, f.d.log, slog.LevelWarn
	still := f.unreadable
	f.unreadable = errors.Is(err, sampler.ErrProgram)
	switch {
	case f.isAway(err): // perhaps for weeks
		state, log, level = Waiting, f.d.details, slog.LevelInfo
	case f.unreadable && f.d.unreadable.Told(f.program):
		log, level = f.d.details, slog.LevelDebug
	}
	cure, known := advice.Of(err)
	if !known {
		cure = f.target.cureOf(err)
	}
	f.d.mu.Lock()
	f.delay.fail(time.Now(), life)
	next := f.delay.until
	f.d.mu.Unlock()
	if still && f.unreadable {
		f.stay(err.Error(), next)
	} else {
		f.change(state, err.Error(), cure, next)
	}
	log.Log(context.Background(), level, "cannot sample", "target", f.target.Name, f.attr(), "error", err, "next try", next)
}

// attr names the process or the endpoint in the log.
func (f *follower) attr() slog.Attr {
	switch {
	case f.target.isEndpoint():
		return slog.String("url", f.target.Match.URL)
	case f.target.Match.Host:
		return slog.Bool("host", true)
	}
	return slog.Int("pid", f.facts.PID)
}

func (f *follower) nextTry() time.Time {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	return f.next
}

// enter changes the state to one without a next try.
func (f *follower) enter(s State, reason string) { f.change(s, reason, "", time.Time{}) }

// change changes the state, and raises an event.
func (f *follower) change(s State, reason, cure string, next time.Time) {
	f.d.mu.Lock()
	f.state, f.reason, f.since, f.cure, f.next = s, reason, time.Now(), cure, next
	f.d.mu.Unlock()
	text := string(s)
	if reason != "" {
		text += ": " + reason
	}
	f.raise(EventState, "%s", text)
}

// stay notes the reason of a state that has not changed, and raises no event.
func (f *follower) stay(reason string, next time.Time) {
	f.d.mu.Lock()
	defer f.d.mu.Unlock()
	f.reason, f.next = reason, next
}

func (f *follower) raise(k Kind, format string, args ...any) {
	f.d.events.raise(Event{
		Kind: k, Target: f.target.Name, PID: f.facts.PID, Owner: f.ownerNow(), OfHost: f.target.Match.Host, Text: fmt.Sprintf(format, args...),
	})
}

// leave gives up the follower's place, and makes the daemon look at the process again: it may
// have replaced itself by another program.
func (f *follower) leave() {
	d, t := f.d, f.target
	f.settle(sampler.ErrNoProcess)
	d.mu.Lock()
	if t.followers[f.facts.PID] == f {
		delete(t.followers, f.facts.PID)
	}
	d.running--
	if t.attached != nil && len(t.followers) == 0 && !t.paused && !d.closing {
		t.ended = time.Now()
	}
	d.lookAgain = append(d.lookAgain, f.facts.PID)
	text := t.ending
	d.mu.Unlock()
	d.nudge() // filing waits for a disk, and the next program does not
	f.raise(EventState, "%s: %s", Waiting, text)
	d.fileAtEnd(t)
}
