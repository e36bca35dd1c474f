package store

import (
	"path"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/tuning"
)

// Past is what a store knows of a build before its next run begins.
type Past struct {
	Files    int           // that were filed: runs, or periods
	Since    time.Time     // when the first of them began
	Interval time.Duration // at which the last one had settled whose tuner decided anything; 0: none
}

// Past returns what the store knows of a key. It reads the index and one directory, and no profile: a program waits
// for it to begin. A build without an id is no build.
func (r *Reader) Past(k Key) Past {
	if k.Build == "" {
		return Past{}
	}
	infos, err := r.disk.List(k.dir())
	if err != nil {
		return Past{} // nothing is known
	}
	x, _ := readIndex(r.disk) // without it the interval is not known
	var entries []Entry
	for _, info := range infos {
		n, ok := parseFileName(info.Name())
		if ok && (n.fleet || ownerMark(n.owner) == ownerMark(k.Owner)) && info.Mode().IsRegular() {
			f := found{target: k.Target, build: BuildName(k.Build), event: Event(k.Unit), fileName: n, path: path.Join(k.dir(), info.Name()), info: info}
			entries = append(entries, r.entry(&f, x))
		}
	}
	return PastOf(entries)
}

// PastOf returns what the entries of a build tell. Where none was sampled here, a hub may know the interval.
func PastOf(entries []Entry) (p Past) {
	last := time.Time{}
	for _, e := range entries {
		if e.Kind == KindFleet && p.Files == 0 {
			p.Interval = e.Interval
		}
		if e.Kind != KindPeriod {
			continue
		}
		if p.Files++; p.Files == 1 {
			p.Interval = 0 // of a hub
		}
		if p.Since.IsZero() || e.From.Before(p.Since) {
			p.Since = e.From
		}
		if e.Interval > 0 && !e.To.Before(last) {
			last, p.Interval = e.To, e.Interval
		}
	}
	return p
}

// PastOfProfile returns what one profile tells, of whatever build.
func PastOfProfile(m ccmap.Meta) Past {
	p := Past{Files: 1, Since: m.Start}
	if m.Unit == ccmap.CPUTime {
		p.Interval = settledInterval(m.Interval)
	}
	return p
}

// settledInterval returns the interval at which a tuner had settled, 0 if it decided nothing.
func settledInterval(changes []ccmap.IntervalChange) time.Duration {
	for _, c := range slices.Backward(changes) {
		if tuning.Lasting(c.Reason) {
			return c.Interval
		}
	}
	return 0
}
