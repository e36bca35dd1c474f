package valueprof

import "log/slog"

// janitor keeps tables useful: OpenJ9's JProfiling thread, as the goroutine that
// counts. It goes by events, never by time, and looks only at tables that had no slot
// for a value.
type janitor struct {
	policy Policy
	every  uint64 // adds that a table takes between two looks at it
	log    *slog.Logger

	due       []*tended // tables that had no slot for a value since their last look
	untilLook int       // calls

	looks, decays, resets int
}

func newJanitor(o Options) janitor {
	j := janitor{policy: o.Policy, every: uint64(o.Every), log: o.Log}
	j.rest(0)
	return j
}

// rest puts the next look off: often enough for every table to be seen soon after it
// is due, and so that looking costs every call little.
func (j *janitor) rest(tables int) { j.untilLook = max(int(j.every/4), tables, 1) }

// missed notes a table that had no slot for a value.
func (j *janitor) missed(t *tended) {
	if !t.due {
		t.due = true
		j.due = append(j.due, t)
	}
}

// look judges the tables that are due. One that had too few adds stays due.
func (p *Profile) look() {
	j := &p.janitor
	tables, decayed, reset := len(j.due), 0, 0
	early := j.due[:0]
	for _, t := range j.due {
		v := j.policy.judge(t.table, &t.seen, j.every, func(gone Value) { p.keep(t, gone.Value, gone.Count) })
		switch v {
		case verdictEarly:
			early = append(early, t)
			continue
		case verdictDecayed:
			decayed++
		case verdictReset:
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

// forget drops the tables that were freed.
func (j *janitor) forget() {
	kept := j.due[:0]
	for _, t := range j.due {
		if t.due {
			kept = append(kept, t)
		}
	}
	clear(j.due[len(kept):])
	j.due = kept
}
