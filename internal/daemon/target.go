package daemon

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// target is a name and a rule, with the processes that fit.
//
//	Target … owned           never change
//	filing                   orders the filing of periods; taken before the daemon's mu
//	merged                   has a lock of its own
//	all others               under the daemon's mu
type target struct {
	config.Target
	rule     config.Rule
	attached *process.Facts // the process of a target that Attach has made; nil: of the configuration
	owned    bool           // the attached process is taken while it has the owner of then: its user may have asked

	followers map[int]*follower // by pid: processes that fit, started or waiting
	slots     []*slot
	build     string // that the latest session had
	paused    bool
	removing  bool         // it has left, and is being filed
	delay     backoff      // of processes that lived shortly
	leftOut   int          // processes beyond Max
	strangers map[int]bool // processes that fit and are neither Go programs nor JVMs
	hidden    map[int]bool // processes that may fit, by their names: their executables may not be seen
	restarts  uint64
	counters  Counters  // without the sessions that run
	ended     time.Time // of an attached process; zero: it lives
	ending    string
	last      *engine.LastLook // of an endpoint that hosts VMs: the source of the session has it; nil: nothing is known

	rotation time.Time     // the next one; of a removed target: the next attempt to file it
	filing   chan struct{} // holds a token while periods are filed
	merged   mergedCache
}

func newTarget(c config.Target) *target {
	return &target{Target: c, filing: make(chan struct{}, 1), followers: make(map[int]*follower), strangers: make(map[int]bool), hidden: make(map[int]bool)}
}

// fits reports whether the target takes a process.
func (t *target) fits(f process.Facts) bool {
	if t.attached != nil {
		return f.PID == t.attached.PID && f.Started == t.attached.Started && (!t.owned || f.Owner == t.attached.Owner)
	}
	return t.rule.Matches(f)
}

// backoff puts attempts off, each twice as long as the last.
type backoff struct {
	wait  time.Duration
	until time.Time
}

const (
	firstWait, longestWait = time.Second, time.Minute
	// jitter is how much a wait is lengthened or shortened at most, so that the attempts of many
	// processes do not come together.
	jitter = 0.2
	// shortLife is the life of a process that failed at its start; longLife shows that it works.
	shortLife, longLife = time.Second, time.Minute
)

// fail puts the next attempt off after one that was good for life.
func (b *backoff) fail(now time.Time, life time.Duration) {
	if life >= longLife {
		*b = backoff{}
	}
	b.wait = min(max(2*b.wait, firstWait), longestWait)
	b.until = now.Add(spread(b.wait))
}

// spread makes a wait longer or shorter at random.
func spread(wait time.Duration) time.Duration {
	return time.Duration(float64(wait) * (1 + jitter*(2*rand.Float64()-1)))
}

// lived takes in how long an attempt was good for. Less than least puts the next one off.
func (b *backoff) lived(now time.Time, life, least time.Duration) {
	switch {
	case life < least:
		b.fail(now, life)
	case life >= longLife:
		*b = backoff{}
	}
}

// candidate is a process that a target would take, with its executable.
type candidate struct {
	process.Facts
	file process.FileID // zero: not known
}

// wanted returns the processes that targets would take. One whose executable does not answer is none.
func (d *Daemon) wanted(looked []process.Facts) []process.Facts {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(looked, func(f process.Facts) bool {
		d.noteHidden(f)
		_, asked := d.asked[f.PID]
		return asked || d.followerOf(f.PID) != nil || d.targetOf(f) == nil || d.hungOf(f.UID) >= mostHung
	})
}

// noteHidden notes which targets a process may fit whose executable may not be seen. The caller holds mu.
func (d *Daemon) noteHidden(f process.Facts) {
	for _, t := range d.order {
		delete(t.hidden, f.PID)
		if t.rule.MayMatch(f) {
			t.hidden[f.PID] = true
		}
	}
}

// targetOf returns the first target that a process fits, nil if there is none. The caller holds mu.
func (d *Daemon) targetOf(f process.Facts) *target {
	if i := slices.IndexFunc(d.order, func(t *target) bool { return t.fits(f) }); i >= 0 {
		return d.order[i]
	}
	return nil
}

// question is a look at the executable of a process.
type question struct {
	owner int
	late  bool // Run waits for the answer no more
}

// identifyWait is how long the file systems of executables have to answer.
const identifyWait = time.Second

// identify looks at the executables of processes, all at once: a file system may hang. A process whose
// executable does not answer is left out, and looked at again when it does.
func (d *Daemon) identify(all []process.Facts) (found []candidate) {
	answers := make(chan candidate, len(all))
	d.mu.Lock()
	for _, f := range all {
		d.asked[f.PID] = question{owner: f.UID}
		go d.ask(f, answers)
	}
	d.mu.Unlock()
	timeout := time.NewTimer(identifyWait)
	defer timeout.Stop()
	for range all {
		select {
		case c := <-answers:
			found = append(found, c)
		case <-timeout.C:
			return append(found, d.giveUp(all, answers)...)
		}
	}
	return found
}

// ask looks at the executable of a process.
func (d *Daemon) ask(f process.Facts, answers chan<- candidate) {
	file, _ := d.host.file(f.PID) // an error is the follower's to tell
	d.mu.Lock()
	defer d.mu.Unlock()
	late := d.asked[f.PID].late
	delete(d.asked, f.PID)
	answers <- candidate{f, file} // has room for all
	if late {
		d.lookAgain = append(d.lookAgain, f.PID)
		d.nudge()
	}
}

// giveUp ends the wait for executables. It returns the last answers.
func (d *Daemon) giveUp(all []process.Facts, answers <-chan candidate) (found []candidate) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range all {
		if _, waits := d.asked[f.PID]; waits {
			d.asked[f.PID] = question{owner: f.UID, late: true}
			d.log.Warn("the file system of an executable does not answer", "pid", f.PID)
		}
	}
	for len(answers) > 0 {
		found = append(found, <-answers)
	}
	return found
}

// offer gives a process to the first target that it fits, if none has it. The caller holds mu.
func (d *Daemon) offer(c candidate) {
	if d.followerOf(c.PID) != nil {
		return
	}
	if t := d.targetOf(c.Facts); t != nil {
		d.admit(t, c)
	}
}

// admit adds a process to a target, unless its executable was neither Go nor a JVM a moment ago.
// The caller holds mu.
func (d *Daemon) admit(t *target, c candidate) {
	if d.strangers.Has(c.file) {
		t.strangers[c.PID] = true
		return
	}
	delete(t.strangers, c.PID)
	d.add(t, c.Facts)
}

// add makes a follower that waits to be started. The caller holds mu.
func (d *Daemon) add(t *target, facts process.Facts) *follower {
	f := &follower{d: d, target: t, facts: facts, owner: facts.Owner, state: Waiting, since: time.Now(), settled: make(chan struct{})}
	t.followers[facts.PID], t.ended = f, time.Time{}
	return f
}

// follows reports whether a target has the process.
func (d *Daemon) follows(pid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.followerOf(pid) != nil
}

// followerOf returns the follower of a process, nil if there is none. The caller holds mu.
func (d *Daemon) followerOf(pid int) *follower {
	for _, t := range d.order {
		if f := t.followers[pid]; f != nil {
			return f
		}
	}
	return nil
}

// schedule starts the followers that there is a place for, the oldest processes first. The caller
// holds mu.
func (d *Daemon) schedule() {
	now := time.Now()
	for _, t := range d.order {
		waiting, running := t.waiting()
		t.leftOut = 0
		for _, f := range waiting {
			switch {
			case t.paused || d.closing:
				continue
			case running >= t.Max:
				t.leftOut++
				f.reason = "the target has as many processes as max permits"
			case d.running >= d.config.Budget.Targets:
				f.reason = "as many processes are sampled as budget.targets permits"
			case now.Before(t.delay.until):
				f.reason, f.next = t.whyDelayed(), t.delay.until
			default:
				d.start(f)
				running++
			}
		}
	}
}

// leastLife returns the life of a session that puts the next one off if it is shorter. Two programs
// that answer at one address in turn must not have a map for each profile.
func (t *target) leastLife() time.Duration {
	if t.hasNoProcess() {
		return longLife
	}
	return shortLife
}

// whyDelayed explains the delay of a target.
func (t *target) whyDelayed() string {
	if t.hasNoProcess() {
		return t.ending
	}
	return "the last session ended too soon: " + t.ending
}

// waiting returns the followers that were not started, the oldest process first, and how many
// were.
func (t *target) waiting() (waiting []*follower, running int) {
	for _, f := range t.followers {
		if f.cancel == nil {
			waiting = append(waiting, f)
		} else {
			running++
		}
	}
	slices.SortFunc(waiting, func(a, b *follower) int {
		return cmp.Or(cmp.Compare(a.facts.Started, b.facts.Started), cmp.Compare(a.facts.PID, b.facts.PID))
	})
	return waiting, running
}

// start runs a follower. The caller holds mu.
func (d *Daemon) start(f *follower) {
	var ctx context.Context
	ctx, f.cancel = context.WithCancelCause(d.ctx)
	f.reason, f.next = "", time.Time{}
	d.running++
	d.work.Go(func() { f.run(ctx) })
}

// stopFollowers ends the sessions of a target, and forgets the processes that wait. The caller
// holds mu.
func (t *target) stopFollowers(cause error) {
	for pid, f := range t.followers {
		if f.cancel == nil {
			delete(t.followers, pid)
		} else {
			f.cancel(cause)
		}
	}
}

// dropEnded forgets processes that have ended, unless their sessions do so. The caller holds mu.
func (d *Daemon) dropEnded(exist map[int]uint64) {
	maps.DeleteFunc(d.hung, func(pid int, _ lostThread) bool { _, lives := exist[pid]; return !lives })
	for _, t := range d.order {
		for pid, f := range t.followers {
			if _, lives := exist[pid]; !lives && f.cancel == nil && !t.hasNoProcess() {
				delete(t.followers, pid)
			}
		}
		for _, pids := range []map[int]bool{t.strangers, t.hidden} {
			maps.DeleteFunc(pids, func(pid int, _ bool) bool { _, lives := exist[pid]; return !lives })
		}
	}
}

var (
	errPaused   = errors.New("paused")
	errDetached = errors.New("detached")
	errChanged  = errors.New("the configuration has changed")
)
