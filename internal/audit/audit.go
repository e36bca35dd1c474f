// Package audit writes the lines of a log that others can cause: so many of each of them, so that nobody
// fills the disk, or hides the lines of others among many of their own.
//
// Each party may cause a number of lines at once, and then one a second. What is left out is counted, and
// told with the number of lines: before the party's next line, when the party has been quiet for a while
// and somebody else causes a line, or by [Log.Flush].
package audit

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// Log is a log of what parties do. Any goroutine may call its methods.
type Log struct {
	log   *slog.Logger
	burst int // lines of a party at once

	mu      sync.Mutex
	parties map[string]*allowance
}

// allowance is what a party may cause.
type allowance struct {
	lines   int       // now
	at      time.Time // when lines was reckoned
	leftOut int
}

const (
	every = time.Second // one more line
	// mostParties bounds the parties that are told apart. Further ones are one party: a user may have
	// the numbers of thousands of users (subuid(5)).
	mostParties = 1024
	furtherOnes = "others"
)

// New returns a log that writes to another one. Burst is the number of lines that a party may cause at
// once.
func New(to *slog.Logger, burst int) *Log {
	return &Log{log: to, burst: burst, parties: make(map[string]*allowance)}
}

// Info writes a line that a party has caused, or counts it. Parties are told apart by a name, which is in
// the line about those that were left out.
func (l *Log) Info(party, what string, args ...any) {
	if !l.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	a := l.of(party, now)
	l.refill(a, now)
	if a.lines == 0 {
		a.leftOut++
		return
	}
	a.lines--
	l.tell(party, a)
	l.log.Info(what, args...)
}

// of returns the allowance of a party. The caller holds mu.
func (l *Log) of(party string, now time.Time) *allowance {
	l.forget(party, now)
	if a := l.parties[party]; a != nil {
		return a
	}
	if len(l.parties) >= mostParties {
		party = furtherOnes
	}
	if l.parties[party] == nil {
		l.parties[party] = &allowance{lines: l.burst, at: now}
	}
	return l.parties[party]
}

// refill adds the lines of the time that has passed. The caller holds mu.
func (l *Log) refill(a *allowance, now time.Time) {
	if more := int(now.Sub(a.at) / every); more > 0 {
		a.lines, a.at = min(a.lines+more, l.burst), a.at.Add(time.Duration(more)*every)
	}
}

// forget drops the parties, but for one, that have been quiet for so long that they may cause as many lines as new
// ones. The caller holds mu.
func (l *Log) forget(but string, now time.Time) {
	for party, a := range l.parties {
		l.refill(a, now)
		if party != but && a.lines == l.burst {
			l.tell(party, a)
			delete(l.parties, party)
		}
	}
}

// tell tells how many lines of a party were left out. The caller holds mu.
func (l *Log) tell(party string, a *allowance) {
	if a.leftOut > 0 {
		l.log.Warn("lines were left out: too many", "of", party, "lines", a.leftOut)
		a.leftOut = 0
	}
}

// Flush tells how many lines were left out and not told of yet.
func (l *Log) Flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for party, a := range l.parties {
		l.tell(party, a)
	}
}
