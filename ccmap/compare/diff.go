package compare

import (
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
)

// DiffOptions choose what to look for. The zero value is useful.
type DiffOptions struct {
	Weight Weight // ByTime or BySamples

	// Level is how probable it may be that a list of changes names anything at all
	// in two profiles of one behaviour, over 0 and under 1; 0: [DefaultLevel].
	Level float64
	// Least is the smallest change that is called significant, in points of share,
	// 0 to 100: two runs of one program differ by a little more than noise.
	Least float64

	All   bool // list changes that are not significant, too
	Limit int  // most changes in a list, the largest; 0: no limit

	// Absorb is that of [Options].
	Absorb func(ccmap.Method) bool
}

// DefaultLevel is the Level of the zero DiffOptions.
const DefaultLevel = 0.05

// Diff is what changed from profile A to profile B. Its JSON form is stable:
// fields may be added.
type Diff struct {
	Weight Weight  `json:"weight"`
	A      Profile `json:"a"`
	B      Profile `json:"b"`
	Level  float64 `json:"level"`
	Least  float64 `json:"least"`            // points
	CutAt  int     `json:"cut_at,omitempty"` // see [Result]

	Methods  Changes `json:"methods"`  // with all they call
	Edges    Changes `json:"edges"`    // calls by a method, at one position, of another
	Contexts Changes `json:"contexts"` // whole stacks down to a method, with all it calls
}

// Changes are those of all things of one kind.
type Changes struct {
	List        []Change `json:"list"`        // the largest first; never nil
	Significant int      `json:"significant"` // how many are, with those that the limit left out
	Tested      int      `json:"tested"`      // how many have samples enough to be
	More        int      `json:"more"`        // how many the limit left out

	// Detectable is the change, in points, that something with a share of 10 %
	// must make to be called significant nine times in ten; 0 if nothing was
	// tested, 100 if nothing can be.
	Detectable float64 `json:"detectable"`
}

// Change is how much the share of one thing changed. A sample counts once for it,
// whatever the recursion.
type Change struct {
	Path     []Frame `json:"path"`      // innermost first: the method, its callers
	ShareA   float64 `json:"share_a"`   // percent of the profile's weight
	ShareB   float64 `json:"share_b"`   // percent
	Points   float64 `json:"points"`    // ShareB − ShareA
	SamplesA int64   `json:"samples_a"` // behind the share
	SamplesB int64   `json:"samples_b"`

	// P is how probable a change like this one, or a larger one, is anywhere in
	// the list if nothing changed; 1 if there are too few samples to say.
	P           float64 `json:"p"`
	Significant bool    `json:"significant"`
}

// errCalls says why calls have no significance.
var errCalls = errors.New("calls that one sample found together are no independent witnesses: choose time or samples")

func (o DiffOptions) checked() (DiffOptions, error) {
	if o.Level == 0 {
		o.Level = DefaultLevel
	}
	switch {
	case o.Weight == ByActivations:
		return o, fmt.Errorf("weight is %v: %w", o.Weight, errCalls)
	case int(o.Weight) >= len(weightNames):
		return o, fmt.Errorf("%v is not a weight", o.Weight)
	case !(o.Level > 0 && o.Level < 1):
		return o, fmt.Errorf("level is %v: choose one over 0 and under 1", o.Level)
	case !(o.Least >= 0 && o.Least <= 100):
		return o, fmt.Errorf("least change is %v: choose one from 0 to 100 points", o.Least)
	case o.Limit < 0:
		return o, fmt.Errorf("limit is %d: choose one of 0 or more", o.Limit)
	}
	return o, nil
}

// Differences lists what changed from a to b, and how far each change can be
// trusted. It takes O(n log n) time and O(n) space for n nodes in both.
//
// A thing's samples in both profiles, together, fall to A and B by chance if its
// share is the same: the test is the exact one of that binomial distribution,
// given their sum. The chance is that of A's samples, as if all weighed what
// those of this thing do: so profiles at different intervals are fair to each
// other. Samples count as far as they are independent of each other (see
// [Profile]). Holm's procedure corrects for the number of things tested, which
// are those with ten such samples or more; nothing else is ever significant.
//
// Methods and edges are over full totals, also in pruned maps. Contexts are the
// kept ones. A context is not listed if one that it calls makes three quarters of
// its change or more, and is as significant: the change is that one's.
//
// The error wraps [ErrEmpty] or, where the profiles measure different things,
// [ccmap.ErrUnlike], or says which option makes no sense.
func Differences(a, b *ccmap.Snapshot, o DiffOptions) (Diff, error) {
	o, err := o.checked()
	if err != nil {
		return Diff{}, fmt.Errorf("find differences: %w", err)
	}
	t, err := lay(a, b, Options{Weight: o.Weight, Absorb: o.Absorb})
	if err != nil {
		return Diff{}, fmt.Errorf("find differences: %w", err)
	}
	d := Diff{Weight: o.Weight, A: t.describe(t.a), B: t.describe(t.b), Level: o.Level, Least: o.Least, CutAt: t.cutAt}
	x := t.tallies()
	methods, edges := t.once(x)
	callers := t.callers(x, t.joined())
	w := witness{t, o}
	d.Methods = w.changes(methods, nil, func(i int) []Frame { return []Frame{t.declaration(uint32(i))} })
	d.Edges = w.changes(edges, nil, t.edgeFrames)
	d.Contexts = w.changes(x, callers, t.contextFrames)
	return d, nil
}
