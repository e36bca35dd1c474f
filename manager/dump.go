package manager

import (
	"errors"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Dump is one output of a session, for example a file.
type Dump struct {
	Name string // for people, for example the path

	// Write writes the final snapshot. Its error names what could not be
	// written.
	Write func(*ccmap.Snapshot) error
}

// dump writes all dumps, whichever of them fail, and returns the names of those
// that were written.
func (m *Manager) dump(s *ccmap.Snapshot) (written []string, err error) {
	for _, d := range m.config.Dumps {
		if failed := d.Write(s); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		written = append(written, d.Name)
	}
	return written, err
}
