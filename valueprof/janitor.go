package valueprof

import (
	"cmp"
	"context"
	"log/slog"
	"sync/atomic"
)

// JanitorOptions say how a [Janitor] works. The zero value is useful.
type JanitorOptions struct {
	Policy Policy
	// Every is how many adds a table takes between two looks at it, ≥ 1; 1,000.
	// With fewer, new values are found sooner and shares are known less well: on a
	// stream of which a third finds no slot, within 0.6 points at 1,000 and within
	// 0.8 at 500.
	Every int
	Log   *slog.Logger // says at level Debug what was done; nil: nothing is said
}

const defaultEvery = 1000

// Janitor keeps value tables useful and their memory bounded: OpenJ9's JProfiling
// thread. There is one for any number of [Info]. It looks at the tables of those
// that are active, applies its policy, and frees the Info that nobody refers to.
// It goes by events, never by time: an idle program costs nothing.
//
// It works in one of two ways. Inline, the single owner of all tables calls
// [Janitor.Look] now and then. As a goroutine, [Janitor.Run] looks whenever it is
// woken, at bodies that are made for it.
//
// Two lists, singly linked. all has every Info: anyone adds in front without a
// lock, only the janitor removes. active has those that were added to since the
// last look: anyone adds in front, the janitor takes the whole list at once. An
// Info that is not active costs a look nothing. The other fields are constant, or
// the janitor's, or atomic.
type Janitor struct {
	policy Policy
	every  uint64
	log    *slog.Logger

	all    atomic.Pointer[Info]
	active atomic.Pointer[Info]
	dead   atomic.Bool   // some Info has no reference left
	events atomic.Uint64 // adds since the last wake-up, see added
	wake   chan struct{} // holds one: a look is asked for

	did Looked // at this look; the janitor's
}

// Looked is what a look, or all looks, of the janitor did.
type Looked struct {
	Looks   int // 1 for one look
	Infos   int // active infos that were looked at
	Tables  int // of their tables, those that had no slot for a value since the last look
	Decayed int // of the tables
	Reset   int // of the tables
	Freed   int // infos
}

// NewJanitor returns a janitor.
func NewJanitor(o JanitorOptions) *Janitor {
	return &Janitor{
		policy: o.Policy,
		every:  uint64(cmp.Or(max(o.Every, 0), defaultEvery)),
		log:    cmp.Or(o.Log, slog.New(slog.DiscardHandler)),
		wake:   make(chan struct{}, 1),
	}
}

// Run looks whenever it is woken, by [Info.Added] or by the release of the
// last reference to an Info, until the context ends, and once more then. Looks
// go on one after the other: nothing else may call Look meanwhile.
func (j *Janitor) Run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			j.Look()
			return
		case <-j.wake:
			j.Look()
		}
	}
}

// added wakes the janitor once the adds are enough for a table to be looked at.
func (j *Janitor) added(n int) {
	if j.events.Add(uint64(n)) >= j.every {
		j.events.Store(0)
		j.ring()
	}
}

// died tells the janitor that there is something to free.
func (j *Janitor) died() {
	j.dead.Store(true)
	j.ring()
}

func (j *Janitor) ring() {
	select {
	case j.wake <- struct{}{}:
	default: // rung already
	}
}

// Look tends the active tables and frees what nobody refers to. Only one
// goroutine may look, the one that may touch the tables.
func (j *Janitor) Look() Looked {
	j.did = Looked{Looks: 1}
	j.tend()
	if j.dead.Swap(false) {
		j.sweep()
	}
	j.report()
	return j.did
}

// tend looks at the active infos. Those that were added to while they are looked
// at, or that are to be looked at again, become active for the next look.
func (j *Janitor) tend() {
	for i := j.active.Swap(nil); i != nil; {
		next := i.nextActive
		i.active.Store(false)
		if i.refs.Load() > 0 {
			j.did.Infos++
			if i.body.Tend(j) {
				i.touch()
			}
		}
		i = next
	}
}

func (j *Janitor) report() {
	if d := j.did; d.Decayed+d.Reset+d.Freed > 0 {
		j.log.Debug("janitor looked", "infos", d.Infos, "tables", d.Tables,
			"decayed", d.Decayed, "reset", d.Reset, "freed", d.Freed)
	}
}

// judge looks at one table for [Body.Tend], as the policy has it.
func (j *Janitor) judge(t *Table, last *sight) verdict {
	v := j.policy.judge(t, last, j.every)
	j.did.Tables++
	switch v {
	case verdictDecayed:
		j.did.Decayed++
	case verdictReset:
		j.did.Reset++
	}
	return v
}

func (l *Looked) add(o Looked) {
	l.Looks += o.Looks
	l.Infos += o.Infos
	l.Tables += o.Tables
	l.Decayed += o.Decayed
	l.Reset += o.Reset
	l.Freed += o.Freed
}
