package daemon

import (
	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/moments"
	"github.com/ccmapd/ccmapd/internal/store"
)

// momentsOf are the moments of a slot's map on their way to files: one from period to period. A nil momentsOf keeps
// nothing.
//
//	log    locks itself
//	others under the target's filing
type momentsOf struct {
	log  *moments.Log
	key  store.Key // of the file
	file string    // its name
}

// keepsMoments reports whether the configuration wants them.
func (m *means) keepsMoments() bool {
	s := m.config().Store
	return s.Files && s.Moments > 0
}

func (h *shelf) newMoments() *momentsOf {
	if h.keepsMoments == nil || !h.keepsMoments() {
		return nil
	}
	return &momentsOf{log: moments.NewLog()}
}

// add returns what the map tells of its samples.
func (m *momentsOf) add() func(ccmap.Moment) {
	if m == nil {
		return nil
	}
	return m.log.Add
}

// of names the profile that the moments are of. A file has those of one.
func (m *momentsOf) of(k store.Key) {
	if m != nil && m.key != k {
		m.key = k
		m.log.Begin()
	}
}

// keepMoments writes the moments of slots since the last time. What cannot be written is lost, and counted in the next
// file: a disk that is full or hangs must not cost memory.
func (p *periods) keepMoments(slots []unfiled, endsPeriod bool) {
	for _, s := range slots {
		m := s.moments
		if m == nil || m.key.Target == "" {
			continue
		}
		chunk := m.log.Take()
		if err := m.keep(p.keeper, chunk); err != nil {
			m.log.Lose(chunk)
			p.log.Error("cannot keep moments", "target", m.key.Target, "error", err)
		}
		if endsPeriod {
			m.log.Begin()
		}
	}
}

func (m *momentsOf) keep(to keeper, c moments.Chunk) (err error) {
	if c.Bytes == nil {
		return nil
	}
	if c.Begins {
		if m.file, err = to.BeginMoments(m.key, c.From); err != nil {
			return err
		}
	}
	return to.AppendMoments(m.file, c.Bytes)
}
