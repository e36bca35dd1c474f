package store

import (
	"fmt"
	"time"
)

// Listed is an entry as JSON has it, of 'store list' and of the daemon.
type Listed struct {
	Kind   string    `json:"kind"` // period, hour, day, best, phase-N or running
	Target string    `json:"target"`
	Event  string    `json:"event"`
	Build  string    `json:"build"` // as its directory is called; of the log the whole id
	From   time.Time `json:"from"`
	To     time.Time `json:"to"`
	Commit time.Time `json:"commit,omitzero"` // of the build's source
	File   string    `json:"file,omitempty"`
	Bytes  int64     `json:"bytes"`
	Best   bool      `json:"best"` // it is the best file of its build

	Interval time.Duration `json:"settled_interval_ns,omitempty"` // where the tuner had settled

	UID     *int           `json:"uid,omitempty"` // of the user who may see it besides masters
	GID     *int           `json:"gid,omitempty"`
	Quality *ListedQuality `json:"quality,omitempty"`
}

// ListedQuality is a quality in JSON.
type ListedQuality struct {
	Samples     int64    `json:"samples"`
	Independent *float64 `json:"independent,omitempty"` // absent: too few verdicts
	Settled     float64  `json:"settled_edges,omitempty"`
	Pruned      float64  `json:"pruned_percent"`
	Other       float64  `json:"other_percent"` // of the values at points
	Truncated   float64  `json:"truncated_percent"`
	Unaccounted float64  `json:"unaccounted_percent"`
}

// Listed returns the quality as JSON has it.
func (q Quality) Listed() *ListedQuality {
	l := &ListedQuality{
		Samples: q.Samples, Settled: q.Settled, Pruned: 100 * q.Pruned, Other: 100 * q.Other,
		Truncated: 100 * q.Truncated, Unaccounted: 100 * q.Unaccounted,
	}
	if q.Known {
		l.Independent = &q.Independent
	}
	return l
}

// ListedOf returns entries as JSON has them.
func ListedOf(entries []Entry) []Listed {
	all := make([]Listed, len(entries))
	for i, e := range entries {
		all[i] = Listed{
			Kind: e.Label(), Target: e.Target, Event: e.Event, Build: e.Build, From: e.From, To: e.To, Commit: e.Commit,
			File: e.Name, Bytes: e.Size, Best: e.Best, Interval: e.Interval,
		}
		if e.Owner.Traceable {
			all[i].UID, all[i].GID = &e.Owner.UID, &e.Owner.GID
		}
		if e.Quality != nil {
			all[i].Quality = e.Quality.Listed()
		}
	}
	return all
}

// Label says what an entry is: period, hour, day, best, phase-N, fleet, running or moments.
func (e Entry) Label() string {
	switch e.Kind {
	case KindPeriod:
		return e.Level.String()
	case KindPhase:
		return fmt.Sprintf("%s-%d", e.Kind, e.Phase)
	}
	return string(e.Kind)
}
