package valueprof

import (
	"fmt"
	"math"
)

// Policy says how the janitor treats a table that is full while values
// that are not in it keep coming.
type Policy uint8

const (
	// PolicyDecay halves all counts and drops the weakest quarter of the values
	// when the others were more than a tenth as many as the matched. A value that
	// is frequent now gets a slot at one of the next looks, one that was frequent
	// before fades. Default.
	PolicyDecay Policy = iota
	// PolicyReset is OpenJ9's: it clears the table when the others were more
	// than half as many as the matched, and lets it fill again with what comes
	// first. A table that it leaves is exact, but what it leaves is chance.
	PolicyReset
	// PolicyOff leaves tables as they are: the first distinct values stay.
	PolicyOff
)

var policyNames = [...]string{PolicyDecay: "decay", PolicyReset: "reset", PolicyOff: "off"}

func (p Policy) String() string {
	if int(p) < len(policyNames) {
		return policyNames[p]
	}
	return fmt.Sprintf("Policy(%d)", uint8(p))
}

// ParsePolicy returns the policy of a name: decay, reset or off.
func ParsePolicy(name string) (Policy, error) {
	for p, n := range policyNames {
		if n == name {
			return Policy(p), nil
		}
	}
	return 0, fmt.Errorf("parse janitor policy %q: must be decay, reset or off", name)
}

// Parts of the matched adds that those of other values must exceed, since the last
// look, for a policy to act. The seed's document gives no number for "high".
const (
	decayShare = 0.1
	resetShare = 0.5
)

// sight is what the janitor saw at its last look at a table. The zero value is
// that of a table it has not seen.
type sight struct {
	matched, other uint64  // what the table was left with
	share          float32 // of other among the adds before that look, 0 to 1
	calm           uint8   // how often in a row the share was the same, up to calmLooks
}

const (
	// calmLooks are as many looks as it takes to see that a table does not get
	// any better: many values are just as frequent as the weakest it has. Twice
	// the adds then pass between looks, so that the shares are known better, until
	// there is a change.
	calmLooks = 2
	// sameShare is what two shares of the same stream differ by, one standard
	// deviation, at 1,000 adds of which 0.3 are others.
	sameShare = 0.02
)

// wait is how many adds the table takes until the next look.
func (s *sight) wait(every uint64) uint64 {
	if s.calm == calmLooks {
		return 2 * every
	}
	return every
}

// verdict is what a look at a table led to.
type verdict uint8

const (
	verdictEarly   verdict = iota // too few adds since the last look to tell
	verdictGood                   // the values are the frequent ones, as far as can be told
	verdictDecayed                // by PolicyDecay
	verdictReset                  // by PolicyReset
)

// judge looks at a table that had the given sight at the last look, applies the policy
// to it, and brings the sight up to date. Counts that it takes away go to gone. It
// leaves both alone if too few adds came since then: every, or more where nothing
// changes.
func (p Policy) judge(t *Table, last *sight, every uint64, gone func(Value)) verdict {
	matched, other := t.Matched()-last.matched, t.Other()-last.other
	if matched+other < last.wait(every) {
		return verdictEarly
	}
	v := p.rule(t.Full(), float64(matched), float64(other))
	switch v {
	case verdictDecayed:
		t.Decay(gone)
	case verdictReset:
		t.Reset(gone)
	}
	last.set(t, float32(other)/float32(matched+other))
	return v
}

func (p Policy) rule(full bool, matched, other float64) verdict {
	switch {
	case full && p == PolicyDecay && other > decayShare*matched:
		return verdictDecayed
	case full && p == PolicyReset && other > resetShare*matched:
		return verdictReset
	}
	return verdictGood
}

// set remembers what a table is left with, and whether looking changes anything.
func (s *sight) set(t *Table, share float32) {
	if math.Abs(float64(share-s.share)) > sameShare {
		s.calm = 0
	} else {
		s.calm = min(s.calm+1, calmLooks)
	}
	s.matched, s.other, s.share = t.Matched(), t.Other(), share
}
