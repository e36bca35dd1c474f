package store

import (
	"fmt"
	"io"
	"path"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// PutFleet keeps what a hub knows of a build. It is for masters alone: other machines have counted it. Sums leave it
// out, as it may have what this store has sent.
func (s *Store) PutFleet(k Key, known *ccmap.Snapshot) error {
	name := fleetName(k)
	s.filing.Lock()
	defer s.filing.Unlock()
	if err := s.replace(name, func(w io.Writer) error { return writeProfile(w, known) }); err != nil {
		return fmt.Errorf("keep what the hub knows: %w", err)
	}
	if err := s.noteQuality(name, QualityOf(known), known.Meta()); err == nil {
		s.writeIndex()
	}
	return nil
}

func fleetName(k Key) string {
	return path.Join(k.dir(), fileName{best: true, fleet: true, owner: process.Unowned}.String())
}

// Fleet returns what a hub knew of a build; nil: nothing was asked, or it knew nothing.
func (r *Reader) Fleet(k Key) *Entry {
	for _, e := range r.List(Filter{Target: k.Target, Event: Event(k.Unit), Build: k.Build}).Entries {
		if e.Kind == KindFleet && e.Build == BuildName(k.Build) {
			return &e
		}
	}
	return nil
}
