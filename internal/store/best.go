package store

import (
	"errors"
	"io/fs"
	"path"

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
	if err := s.evaluate(name, q, s.index.files[name]); err != nil {
		s.log.Error("cannot make a file the best of its build", "path", name, "error", err)
	}
	s.writeIndex()
}

// evaluate makes a file the best of its build if it supersedes the one that is.
func (s *Store) evaluate(name string, q Quality, known indexed) error {
	n, _ := parseFileName(path.Base(name))
	best := bestOf(name, n)
	if was, ok := s.qualityOf(best); ok && !Supersedes(q, was) {
		return nil
	}
	if s.isSame(name, best) {
		return nil // and a rename of one name to the other would do nothing
	}
	temp := path.Join(path.Dir(name), tempName)
	if err := s.disk.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.disk.Link(name, temp); err != nil {
		return err
	}
	if err := s.disk.Rename(temp, best); err != nil {
		s.disk.Remove(temp)
		return err
	}
	if err := s.disk.SyncDir(path.Dir(best)); err != nil {
		return err
	}
	info, err := s.disk.Stat(best)
	if err == nil {
		known.size, known.time = info.Size(), info.ModTime().UnixNano()
		s.index.files[best] = known
	}
	return err
}

// isSame reports whether two names are of one file.
func (s *Store) isSame(a, b string) bool {
	x, err := s.disk.Stat(a)
	y, err2 := s.disk.Stat(b)
	return err == nil && err2 == nil && inode(x) != 0 && inode(x) == inode(y)
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
	m, err := readMap(s.disk, name, export.ReadOptions{})
	if err != nil {
		s.log.Warn("cannot read a stored profile", "path", name, "error", err)
		s.index.set(name, info, Quality{}, ccmap.Meta{}) // it is not read again
		return Quality{}, false
	}
	q := QualityOf(m.Snapshot())
	s.index.set(name, info, q, *m.Meta())
	return q, true
}

// noteQuality notes the quality of a file in the index.
func (s *Store) noteQuality(name string, q Quality, meta ccmap.Meta) error {
	info, err := s.disk.Stat(name)
	if err == nil {
		s.index.set(name, info, q, meta)
	}
	return err
}
