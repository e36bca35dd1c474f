package valueprof

import (
	"fmt"
	"log/slog"
	"math"
)

// Policy is the way that the janitor treats a full table while values that are not in
// the table keep coming.
type Policy uint8

const (
	// PolicyDecay halves all counts and drops the weakest quarter of the values when
	// the count of others was more than a tenth of the matched count. A value that is
	// frequent now gets a slot at one of the next looks, and a value that was frequent
	// before fades. Default.
	PolicyDecay Policy = iota
	// PolicyReset is OpenJ9's policy. It clears the table when the count of others was
	// more than half of the matched count. The table then fills with the values that
	// come first. A table that stays is exact, but which table stays is chance.
	PolicyReset
	// PolicyOff leaves tables alone: the first distinct values stay.
	PolicyOff
)

var policyNames = [...]string{PolicyDecay: "decay", PolicyReset: "reset", PolicyOff: "off"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// ParsePolicy returns the policy with a name: decay, reset or off.
func ParsePolicy(name string) (Policy, error) {
	for p, n := range policyNames {
		if n == name {
			return Policy(p), nil
		}
	}
	return 0, fmt.Errorf("parse janitor policy %q: must be decay, reset or off", name)
}

// A policy acts when the count of others since the last look exceeds this share of
// the matched count. OpenJ9's document gives no number for "high".
const (
	decayShare = 0.1
	resetShare = 0.5
)

// outcome is the result of a look at a table.
type outcome uint8

const (
	outcomeEarly   outcome = iota // too few adds since the last look to judge
	outcomeGood                   // the values are the frequent ones, as far as the counts tell
	outcomeDecayed                // by PolicyDecay
	outcomeReset                  // by PolicyReset
)

// judge looks at a table, applies the policy and updates last. It reports counts that
// it takes away to gone. If too few adds came since the last look, judge changes
// nothing. It needs every adds, and twice as many once the table has stopped to get
// better.
func (p Policy) judge(t *Table, last *lastLook, every int64, gone func(Value)) outcome {
	matched, other := t.Matched()-last.matched, t.Other()-last.other
	if matched+other < last.wait(every) {
		return outcomeEarly
	}
	v := p.rule(t.Full(), float64(matched), float64(other))
	switch v {
	case outcomeDecayed:
		t.Decay(gone)
	case outcomeReset:
		t.Reset(gone)
	}
	last.set(t, float32(other)/float32(matched+other))
	return v
}

func (p Policy) rule(full bool, matched, other float64) outcome {
	switch {
	case full && p == PolicyDecay && other > decayShare*matched:
		return outcomeDecayed
	case full && p == PolicyReset && other > resetShare*matched:
		return outcomeReset
	}
	return outcomeGood
}

// lastLook is the state of a table after the janitor's last look. The zero value is
// the state before the first look.
type lastLook struct {
	matched, other int64   // counts left in the table
	share          float32 // of other among the adds before that look, 0 to 1
	unchanged      uint8   // looks in a row with the same share, up to backOffLooks
}

const (
	// backOffLooks is the number of looks that show that a table does not get any
	// better: many values are as frequent as the weakest value that the table holds.
	// From then on the janitor backs off. Twice the adds pass between two looks, which
	// gives better shares, until the share changes.
	backOffLooks = 2
	// sameShare is the difference between two shares of the same stream, one standard
	// deviation, at 1,000 adds with a share of 0.3.
	sameShare = 0.02
)

// wait returns the number of adds until the next look.
func (l *lastLook) wait(every int64) int64 {
	if l.unchanged == backOffLooks {
		return 2 * every
	}
	return every
}

// set records the table after a look, and whether the share has changed.
func (l *lastLook) set(t *Table, share float32) {
	if math.Abs(float64(share-l.share)) > sameShare {
		l.unchanged = 0
	} else {
		l.unchanged = min(l.unchanged+1, backOffLooks)
	}
	l.matched, l.other, l.share = t.Matched(), t.Other(), share
}

// janitor keeps tables useful: OpenJ9's JProfiling thread, run by the goroutine that
// counts. Calls trigger its looks, never time. It looks only at tables that had no
// slot for a value.
type janitor struct {
	policy Policy
	every  int64 // adds that a table takes between two looks
	log    *slog.Logger

	due       []*pointTable // tables that had no slot for a value since their last look
	untilLook int           // calls

	looks, decays, resets int
}

func newJanitor(o Options) janitor {
	j := janitor{policy: o.Policy, every: int64(o.Every), log: o.Log}
	j.rest(0)
	return j
}

// rest sets the time of the next look, in calls: soon enough to see every table that
// is due, and late enough that looks cost each call little.
func (j *janitor) rest(tables int) { j.untilLook = max(int(j.every/4), tables, 1) }

// missed notes a table that had no slot for a value.
func (j *janitor) missed(t *pointTable) {
	if !t.due {
		t.due = true
		j.due = append(j.due, t)
	}
}

// look judges the tables that are due. A table that had too few adds stays due.
func (p *Profile) look() {
	j := &p.janitor
	tables, decayed, reset := len(j.due), 0, 0
	early := j.due[:0]
	for _, t := range j.due {
		v := j.policy.judge(t.Table, &t.last, j.every, func(gone Value) { p.overflow(t, gone.Value, gone.Count) })
		switch v {
		case outcomeEarly:
			early = append(early, t)
			continue
		case outcomeDecayed:
			decayed++
		case outcomeReset:
			reset++
		}
		t.due = false
		p.dump.judged(t, v)
	}
	clear(j.due[len(early):])
	j.due = early
	j.looks, j.decays, j.resets = j.looks+1, j.decays+decayed, j.resets+reset
	j.rest(tables)
	if decayed+reset > 0 {
		j.log.Debug("janitor looked", "tables", tables, "decayed", decayed, "reset", reset)
	}
}
