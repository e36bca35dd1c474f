package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// newID returns a number that no other stream has had.
func newID() uint64 { return rand.Uint64() }

// replace writes a file of a disk as a whole, see [Store.replace]. The lock of the store is held: so there is one
// temporary file.
func replace(d fileSystem, name string, write func(io.Writer) error) error {
	temp := path.Join(path.Dir(name), tempName)
	if err := d.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err // of a process that was killed
	}
	f, err := d.Create(temp)
	if err != nil {
		return err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil {
		err = d.Rename(temp, name)
	}
	if err != nil {
		d.Remove(temp) // the first error is the one to report
		return err
	}
	return d.SyncDir(path.Dir(name))
}

// writeProfile writes a profile as files of the store hold it.
func writeProfile(w io.Writer, s *ccmap.Snapshot) error {
	z, err := zstd.NewWriter(w, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return err
	}
	if err := export.Write(z, export.JSON, s); err != nil {
		z.Close()
		return err
	}
	return z.Close()
}

// File writes the counts of a key from one time to another, and returns the path. Whole has all counts of the streams,
// whether they are in the log or not. The frames that follow in these streams begin where whole
// ends: so no Append of theirs may run from the snapshot of whole to the end of File. The map's Settled, which the
// caller sets, decides whether the file can become the best of its build.
//
// Whatever happens, the counts are in the log or in the file, never in both: the log first says that the file will
// have them, which holds as soon as the file exists. After an error the file does not exist, and the counts are
// still in the log. Where the disk does not say whether a power cut may bring the file back, nothing more is counted
// before it does: Append and File return its errors until then.
func (s *Store) File(k Key, from, to time.Time, whole *ccmap.Snapshot, streams ...*Stream) (string, error) {
	if !isName(k.Target) {
		return "", fmt.Errorf("file period: %q cannot be the name of a directory", k.Target)
	}
	s.filing.Lock()
	defer s.filing.Unlock()
	if s.isClosed() {
		return "", fmt.Errorf("file period: store %s: %w", s.Dir, fs.ErrClosed)
	}
	h := head{}
	s.mu.Lock()
	for _, t := range streams {
		h.Marks = append(h.Marks, t.marks()...)
	}
	err := s.takeBack()
	s.mu.Unlock()
	if err != nil {
		return "", fmt.Errorf("file period: %w", err)
	}
	n := fileName{from: from, to: to, owner: k.Owner}
	name, err := s.newName(k.dir(), n)
	if err != nil {
		return "", fmt.Errorf("file period: %w", err)
	}
	h.Path = name
	announced := func(written, gone bool) {}
	if s.outbox != nil {
		if announced, err = s.outbox.announce(k, n, name); err != nil {
			return "", fmt.Errorf("file period: %w", err)
		}
	}
	err = s.fileAs(h, whole)
	announced(err == nil, err != nil && s.isGone(name))
	if err != nil {
		return "", fmt.Errorf("file period: %w", err)
	}
	s.mu.Lock()
	for _, t := range streams {
		t.acked, t.absorbed = t.tried, nil
	}
	s.dropSegments()
	s.mu.Unlock()
	s.added(name, whole)
	return filepath.Join(s.Dir, name), nil
}

// newName returns the name of a file that does not exist. Another one may have been filed in this millisecond.
func (s *Store) newName(dir string, n fileName) (string, error) {
	for {
		name := path.Join(dir, n.String())
		_, err := s.disk.Stat(name)
		if errors.Is(err, fs.ErrNotExist) {
			return name, nil
		}
		if err != nil {
			return "", err
		}
		n.to = n.to.Add(time.Millisecond)
	}
}

// fileAs announces a file, writes it, and confirms it.
func (s *Store) fileAs(h head, whole *ccmap.Snapshot) error {
	logged := len(h.Marks) > 0
	if logged {
		if err := s.noteAlone(kindFiling, h); err != nil {
			return err
		}
	}
	err := s.replace(h.Path, func(w io.Writer) error { return writeProfile(w, whole) })
	if err != nil {
		return errors.Join(err, s.unfile(h, logged))
	}
	if logged && s.noteAlone(kindFiled, h) != nil {
		s.mu.Lock()
		s.unconfirmed = append(s.unconfirmed, h) // the file is there: so it counts, and the next append says so
		s.ledger.file(h.Marks)
		s.ledger.settle()
		s.mu.Unlock()
	}
	return nil
}

// unfile makes a file that could not be written certain not to count.
func (s *Store) unfile(h head, logged bool) error {
	if err := removeForSure(s.disk, h.Path); err != nil {
		s.mu.Lock()
		s.returning = append(s.returning, h.Path)
		s.mu.Unlock()
		return err
	}
	if logged {
		s.noteAlone(kindVoid, head{Path: h.Path}) // that the file is missing means the same
	}
	return nil
}

// removeForSure removes a file so that no power cut brings it back.
func removeForSure(d fileSystem, name string) error {
	if err := d.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := d.SyncDir(path.Dir(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// takeBack makes certain that files which were removed do not come back: what they had may be counted anew only then.
// The caller holds mu.
func (s *Store) takeBack() error {
	for ; len(s.returning) > 0; s.returning = s.returning[1:] {
		if err := removeForSure(s.disk, s.returning[0]); err != nil {
			return fmt.Errorf("store %s: take a file back: %w", s.Dir, err)
		}
	}
	return nil
}

// isGone reports whether a file is not there, and will not be.
func (s *Store) isGone(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !slices.Contains(s.returning, name) && !exists(s.disk, name)
}

func (s *Store) noteAlone(k kind, h head) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.note(k, h)
}
