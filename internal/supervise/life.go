package supervise

import (
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/refusal"
)

// State is the state of a process.
type State uint8

// The states.
const (
	Waiting State = iota // for a place, or for something to open
	Opening
	Open
	Refused // by the engines
	Strange // neither a Go program nor a JVM
	Hung    // it costs a thread
	Over
)

// StateOf returns the state that an error leads to.
func StateOf(err error) State {
	switch {
	case errors.Is(err, hang.ErrHung):
		return Hung
	case errors.Is(err, refusal.ErrNoProcess):
		return Over
	case errors.Is(err, refusal.ErrNotManaged):
		return Strange
	}
	return Refused
}

// Backoff puts attempts off, each twice as long as the last. The zero value of its unexported fields is useful.
type Backoff struct {
	First, Longest time.Duration
	// Jitter is how much a wait is lengthened or shortened at most, as a part of it, so that the attempts of many
	// processes do not come together.
	Jitter float64

	wait  time.Duration
	until time.Time
}

// longLife is the life of a session that shows that it works: the next wait is the first again.
const longLife = time.Minute

// Fail puts the next attempt off after one that was good for life.
func (b *Backoff) Fail(now time.Time, life time.Duration) {
	if life >= longLife {
		b.Forget()
	}
	b.wait = min(max(2*b.wait, b.First), b.Longest)
	b.until = now.Add(Spread(b.wait, b.Jitter))
}

// Lived takes in how long an attempt was good for. Less than least puts the next one off.
func (b *Backoff) Lived(now time.Time, life, least time.Duration) {
	switch {
	case life < least:
		b.Fail(now, life)
	case life >= longLife:
		b.Forget()
	}
}

// Forget makes the next wait the first.
func (b *Backoff) Forget() { b.wait, b.until = 0, time.Time{} }

// Until returns when the next attempt may be made.
func (b *Backoff) Until() time.Time { return b.until }

// Spread makes a wait longer or shorter at random, by a part of it at most.
func Spread(wait time.Duration, jitter float64) time.Duration {
	return time.Duration(float64(wait) * (1 + jitter*(2*rand.Float64()-1)))
}

// Policy says when an attempt is made again. A Backoff without times: never.
type Policy struct {
	Refused, Strange Backoff
}

// Standing is the state of a process at a time.
type Standing struct {
	State State
	Since time.Time
	Err   error     // why it is refused, or waits; nil: no reason is known
	Next  time.Time // attempt; zero: nobody knows when
}

// Life is the state of one process. Make it by [NewLife]. Any goroutine may call its methods, which return the
// state that follows. It has a lock of its own, and calls nobody.
type Life struct {
	mu     sync.Mutex
	policy Policy
	is     Standing
}

// NewLife returns a life that waits.
func NewLife(p Policy, now time.Time) *Life { return &Life{policy: p, is: Standing{Since: now}} }

// Is returns the state.
func (l *Life) Is() Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.is
}

// Due reports whether an attempt may be made.
func (l *Life) Due(now time.Time) bool {
	is := l.Is()
	switch is.State {
	case Waiting:
		return !now.Before(is.Next)
	case Refused, Strange:
		return !is.Next.IsZero() && !now.Before(is.Next)
	}
	return false
}

// Try begins an attempt.
func (l *Life) Try(now time.Time) Standing { return l.enter(now, Opening, nil, time.Time{}) }

// Succeed takes in that the process is sampled.
func (l *Life) Succeed(now time.Time) Standing { return l.enter(now, Open, nil, time.Time{}) }

// Wait takes in that the process waits, for a reason, until a time or for something to happen.
func (l *Life) Wait(now time.Time, why error, until time.Time) Standing {
	return l.enter(now, Waiting, why, until)
}

// Fail takes in that an attempt has failed, or that a session has ended by an error, after a life.
func (l *Life) Fail(now time.Time, err error, life time.Duration) Standing {
	return l.FailAs(now, StateOf(err), err, life)
}

// FailAs is Fail where the user knows better what an error means. A process that waits is tried again like one that
// is refused.
func (l *Life) FailAs(now time.Time, state State, err error, life time.Duration) Standing {
	next := time.Time{}
	if wait := l.backoff(state); wait != nil && wait.First > 0 {
		l.mu.Lock()
		wait.Fail(now, life)
		next = wait.until
		l.mu.Unlock()
	}
	return l.enter(now, state, err, next)
}

// backoff returns what puts off the attempts of a state; nil: there are none.
func (l *Life) backoff(s State) *Backoff {
	switch s {
	case Refused, Waiting:
		return &l.policy.Refused
	case Strange:
		return &l.policy.Strange
	}
	return nil
}

// End takes in that the process has ended.
func (l *Life) End(now time.Time, why error) Standing { return l.enter(now, Over, why, time.Time{}) }

func (l *Life) enter(now time.Time, s State, why error, next time.Time) Standing {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.is.State == Over || l.is.State == Hung && s != Over {
		return l.is
	}
	if l.is.State != s {
		l.is.Since = now
	}
	l.is.State, l.is.Err, l.is.Next = s, why, next
	return l.is
}
