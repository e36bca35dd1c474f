package daemon

import (
	"errors"
	"maps"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/sampler"
)

// tally counts what has happened to the processes of a target, and when the next may be sampled. It has a lock of its
// own. The target's followers write it.
type tally struct {
	aim

	mu        sync.Mutex
	restarts  uint64
	counters  Counters          // without the sessions that run
	running   map[*session]bool // their counters come on top
	strangers map[int]bool      // processes that fit and are neither Go programs nor JVMs
	delay     supervise.Backoff // of processes that lived shortly
	ending    string            // of the last process
}

func newTally(a aim) *tally {
	return &tally{aim: a, strangers: make(map[int]bool), running: make(map[*session]bool), delay: supervise.Backoff{First: firstWait, Longest: longestWait, Jitter: jitter}}
}

// count changes the counters.
func (t *tally) count(change func(*Counters)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.counters)
}

// addSession takes in that a session runs.
func (t *tally) addSession(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running[s] = true
}

// keepSession keeps the counters of a session that has ended.
func (t *tally) keepSession(s *session) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, s)
	t.counters.Add(s.counters())
}

// figures returns the counters of all sessions, how many processes were sampled to their end, how many are neither Go
// programs nor JVMs, and why the last one is not sampled any more.
func (t *tally) figures() (all Counters, restarts uint64, strangers int, ending string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	all = t.counters
	for s := range t.running {
		all.Add(s.counters())
	}
	return all, t.restarts, len(t.strangers), t.ending
}

// over reports whether a process needs no further attempt after a session, or after an attempt to open one, and notes
// why. An endpoint needs another follower where it needs another map. A process that was replaced by exec has not
// ended.
func (t *tally) over(pid int, ending sampler.Ending, life time.Duration, err error, replaced bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case err == nil && ending.Exited:
		t.restarts++
		t.ending = ending.Reason
		if !replaced {
			t.delay.Lived(time.Now(), life, t.leastLife())
		}
		return true
	case t.endsMap(ending, err):
		t.ending = err.Error()
		t.delay.Lived(time.Now(), life, longLife)
		return true
	case t.isAway(err):
		if life > 0 {
			t.restarts++
		}
		return false
	case errors.Is(err, sampler.ErrNoProcess):
		t.ending = "the process has ended"
		return true
	case errors.Is(err, sampler.ErrNotManaged):
		t.strangers[pid] = true
		t.ending = err.Error()
		return true
	}
	return false
}

// end notes why the target has a process no more.
func (t *tally) end(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ending = reason
}

// last returns why the last process is not sampled any more.
func (t *tally) last() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ending
}

// delayed returns until when no process may be sampled, and why.
func (t *tally) delayed() (until time.Time, why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hasNoProcess() {
		return t.delay.Until(), errors.New(t.ending)
	}
	return t.delay.Until(), errors.New("the last session ended too soon: " + t.ending)
}

// setStranger notes whether a process is neither a Go program nor a JVM.
func (t *tally) setStranger(pid int, is bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if is {
		t.strangers[pid] = true
	} else {
		delete(t.strangers, pid)
	}
}

// dropEnded forgets the strangers that do not exist.
func (t *tally) dropEnded(exist map[int]uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	dropEnded(t.strangers, exist)
}

func dropEnded(pids map[int]bool, exist map[int]uint64) {
	maps.DeleteFunc(pids, func(pid int, _ bool) bool { _, lives := exist[pid]; return !lives })
}
