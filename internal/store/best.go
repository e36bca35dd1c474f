package store

import (
	"io/fs"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// added evaluates a file that was filed, and notes its quality. Its errors are logged: the file is there. The caller
// holds filing.
func (s *Store) added(name string, whole *ccmap.Snapshot) {
	q := QualityOf(whole)
	if err := s.noteQuality(name, q, whole.Meta()); err != nil {
		s.log.Error("cannot look at the file that was filed", "error", err)
		return
	}
	if err := s.evaluate(name, q, whole); err != nil {
		s.log.Error("cannot make a file the best of its build", "path", name, "error", err)
	}
	s.writeIndex()
}

// qualityOf returns the quality of a file, if there is one: out of the index, or of the file itself.
func (s *Store) qualityOf(name string) (Quality, bool) {
	info, err := s.disk.Stat(name)
	if err != nil {
		return Quality{}, false
	}
	if e, ok := s.index.find(name, info); ok {
		return e.quality, e.quality.Samples > 0
	}
	whole := s.look(name, info)
	if whole == nil {
		return Quality{}, false
	}
	return QualityOf(whole), true
}

// look reads a file, and notes its quality. It returns nil if the file cannot be read, which is noted, too: the file is
// not read again.
func (s *Store) look(name string, info fs.FileInfo) *ccmap.Snapshot {
	m, err := readMap(s.disk, name, export.ReadOptions{})
	if err != nil {
		s.log.Warn("cannot read a stored profile", "path", name, "error", err)
		s.index.set(name, info, Quality{}, ccmap.Meta{})
		return nil
	}
	whole := m.Snapshot()
	s.index.set(name, info, QualityOf(whole), *m.Meta())
	return whole
}

// noteQuality notes the quality of a file in the index.
func (s *Store) noteQuality(name string, q Quality, meta ccmap.Meta) error {
	info, err := s.disk.Stat(name)
	if err == nil {
		s.index.set(name, info, q, meta)
	}
	return err
}
