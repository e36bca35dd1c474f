package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// session is one run that was sampled.
type session struct {
	recorded
	profile *ccmap.Snapshot
}

// begin returns when the run began; zero where it was not sampled.
func (s session) begin() time.Time {
	if s.profile == nil {
		return time.Time{}
	}
	return s.profile.Meta().Start
}

// intervals returns the settings of the sampling interval.
func (s session) intervals() []time.Duration {
	var all []time.Duration
	for _, change := range s.profile.Meta().Interval {
		all = append(all, change.Interval)
	}
	return all
}

// sessions reads all runs of a program in a mode.
func sessions(c config, p program, m mode) ([]session, error) {
	var all []session
	for i := range m.times(c.runs) {
		var s session
		err := readJSON(factsPath(c, p, m, i), &s.recorded)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil && m.sampling != nil {
			s.profile, err = readProfile(profilePath(c, p, m, i))
		}
		if err != nil {
			return nil, fmt.Errorf("%s, %s, run %d: %w", p.name, m.name, i, err)
		}
		all = append(all, s)
	}
	return all, nil
}

func readProfile(path string) (*ccmap.Snapshot, error) {
	m, _, err := export.ReadFile(path, export.ReadOptions{})
	if err != nil {
		return nil, err
	}
	return m.Snapshot(), nil
}

func profilesOf(all []session) []*ccmap.Snapshot {
	profiles := make([]*ccmap.Snapshot, len(all))
	for i, s := range all {
		profiles[i] = s.profile
	}
	return profiles
}
