package main

import (
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/testdata/recorded"
)

// replay plays a recorded stream over and over, with threads of its own.
type replay struct {
	ledger  *ledger
	samples []ccmap.Sample
	stacks  []*stack // of the samples
	next    int
}

// openReplay opens a recorded stream whose threads get numbers from a first one
// on.
func openReplay(l *ledger, name string, firstThread uint64) (*replay, error) {
	samples, err := recorded.Open(name, l.names)
	if err != nil {
		return nil, err
	}
	truncation := ccmap.Frame{Method: l.names.Intern(ccmap.Method{Name: ccmap.TruncatedName}), Offset: ccmap.NoOffset}
	r := &replay{ledger: l, samples: samples}
	for i := range samples {
		s := &samples[i]
		s.Thread += firstThread
		s.Fresh = 0 // what the map would make of unmarked frames is its tests' business
		frames := slices.Clip(s.Frames)
		if s.Truncated {
			frames = append(frames, truncation)
		}
		r.stacks = append(r.stacks, l.open(frames))
	}
	return r, nil
}

// sample fills in the next sample and counts it.
func (r *replay) sample(s *ccmap.Sample) {
	next := &r.samples[r.next]
	s.Frames, s.Thread, s.Fresh, s.Depth, s.Truncated = next.Frames, next.Thread, 0, 0, next.Truncated
	r.ledger.count(r.stacks[r.next], s.Weight, 0)
	r.next = (r.next + 1) % len(r.samples)
}
