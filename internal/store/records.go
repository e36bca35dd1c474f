package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

// Names of the files of compile records: records.log, or records.u1000g1000.log.
const (
	recordsStem = "records"
	recordsType = ".log"

	// compactBytes is the size from which on a file of records is written anew by the process that appends to it first,
	// with the records alone that count; and it takes no more when it has mostRecordBytes.
	compactBytes, mostRecordBytes = 4 << 20, 32 << 20
)

func recordsName(o process.Owner) string { return recordsStem + ownerMark(o) + recordsType }

// parseRecordsName reads the name of a file of records.
func parseRecordsName(name string) (process.Owner, bool) {
	stem, ok := strings.CutSuffix(name, recordsType)
	if !ok {
		return process.Owner{}, false
	}
	stem, owner, ok := cutOwner(stem)
	return owner, ok && stem == recordsStem
}

// RecordsOf is a file of compile records.
type RecordsOf struct {
	Target string
	Build  string // as its directory is called
	Owner  process.Owner
	Name   string // of the file, below the directory of the store
	Size   int64  // bytes
}

// AppendRecords appends compile records of a build, with one sync. They are of the key's target, build and owner; its
// unit does not matter. A record that cannot be kept is an error, and the others are kept.
func (s *Store) AppendRecords(k Key, records ...compilation.Record) error {
	var text []byte
	var refused error
	for _, r := range records {
		var err error
		if text, err = compilation.Append(text, r); err != nil {
			refused = errors.Join(refused, err)
		}
	}
	if err := s.appendText(k, text); err != nil {
		return fmt.Errorf("append compile records: %w", err)
	}
	return refused
}

// appendText appends lines to the records of a build, with one sync.
func (s *Store) appendText(k Key, text []byte) error {
	if !isName(k.Target) || len(k.Target) > mostChars {
		return fmt.Errorf("%q cannot be the name of a directory", k.Target)
	}
	if len(text) == 0 {
		return nil
	}
	s.filing.Lock()
	defer s.filing.Unlock()
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return fmt.Errorf("store %s: %w", s.Dir, fs.ErrClosed)
	}
	return s.appendRecords(path.Join(targetsDir, k.Target, BuildName(k.Build), recordsName(k.Owner)), text)
}

// Recorder returns a writer of the compile records of a run without a daemon: each write is of whole lines, and waits
// for the lock. Where another process keeps it, lines are appended beside that one. Any goroutine may write.
func Recorder(o Options, k Key) io.Writer { return recorder{newAdding(o, disk.At(o.Dir)), k} }

// recorder appends to the records of a key.
type recorder struct {
	adding
	key Key
}

// Write implements io.Writer.
func (r recorder) Write(text []byte) (int, error) {
	err := r.prepare()
	if err == nil {
		err = r.append(text)
	}
	if err != nil {
		return 0, withCure(r.Dir, err)
	}
	return len(text), nil
}

func (r recorder) append(text []byte) error {
	lock, err := awaitLock(r.Dir)
	switch {
	case err == nil:
		defer lock.Close()
	case errors.Is(err, ErrLocked):
		r.keepRecords()
	default:
		return err
	}
	return r.appendText(r.key, text)
}

// keepRecords has no file of records written anew: another process may append to it.
func (s *Store) keepRecords() {
	s.filing.Lock()
	defer s.filing.Unlock()
	s.shared = true
}

// appendRecords appends lines to a file. The caller holds filing.
func (s *Store) appendRecords(name string, text []byte) error {
	before, err := s.beginRecords(name)
	if err != nil {
		return err
	}
	f, made, err := extend(s.disk, name)
	if err != nil {
		return err
	}
	_, err = f.Write(append(before, text...))
	if err == nil {
		err = f.Sync()
	}
	if err2 := f.Close(); err == nil {
		err = err2
	}
	if err == nil && made {
		err = s.disk.SyncDir(path.Dir(name))
	}
	if err != nil {
		delete(s.recorded, name) // what was written may have no end
	}
	return err
}

// beginRecords looks at a file that this process appends to for the first time: it makes a large one smaller, and
// returns the end of a line that was cut.
func (s *Store) beginRecords(name string) (end []byte, err error) {
	size, err := s.disk.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		s.recorded[name] = true
		return nil, nil
	}
	switch {
	case err != nil:
		return nil, err
	case size.Size() >= mostRecordBytes:
		return nil, fmt.Errorf("%s has %d bytes, and takes no more", name, size.Size())
	case s.recorded[name]:
		return nil, nil
	}
	if size.Size() >= compactBytes && !s.shared {
		l, err := readRecords(s.disk, name)
		if err != nil {
			return nil, err
		}
		text := compilation.NewCache(l.Records).Compact(nil)
		if err := s.replace(name, func(w io.Writer) error { _, err := w.Write(text); return err }); err != nil {
			return nil, err
		}
	} else if end, err = missingEnd(s.disk, name, size.Size()); err != nil {
		return nil, err
	}
	s.recorded[name] = true
	return end, nil
}

// missingEnd returns what ends the last line of a file.
func missingEnd(d fileSystem, name string, size int64) ([]byte, error) {
	if size == 0 {
		return nil, nil
	}
	f, err := d.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	last := make([]byte, 1)
	if _, err := f.ReadAt(last, size-1); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if last[0] == '\n' {
		return nil, nil
	}
	return []byte{'\n'}, nil
}

// extend opens a file to append to it, and makes it if it is missing.
func extend(d fileSystem, name string) (f disk.File, made bool, err error) {
	f, err = d.Extend(name)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = d.Create(name)
		made = true
	}
	return f, made, err
}

func readRecords(d fileSystem, name string) (compilation.Log, error) {
	f, err := d.Open(name)
	if err != nil {
		return compilation.Log{}, err
	}
	defer f.Close()
	return compilation.Read(f)
}

// Records lists the files of compile records that a filter chooses, whose Event counts for nothing.
func (r *Reader) Records(f Filter) (all []RecordsOf) {
	for _, file := range walk(r.disk).records {
		one := RecordsOf{Target: file.target, Build: file.build, Owner: file.owner, Name: file.path, Size: file.info.Size()}
		if f.takes(&Entry{Target: one.Target, Build: one.Build, Owner: one.Owner, Event: f.Event}) {
			all = append(all, one)
		}
	}
	return all
}

// ReadRecords reads a file of compile records. What is damaged is counted, and no error.
func (r *Reader) ReadRecords(of RecordsOf) (compilation.Log, error) {
	if owner, ok := parseRecordsName(path.Base(of.Name)); !ok || owner != of.Owner {
		return compilation.Log{}, fmt.Errorf("read compile records: %s is no file of them", of.Name)
	}
	l, err := readRecords(r.disk, of.Name)
	if err != nil {
		return l, fmt.Errorf("read compile records of %s: %w", filepath.Join(r.dir, of.Name), err)
	}
	return l, nil
}

// removeBeside removes the records and the fan-in of builds that have no profile any more.
func (r *retaining) removeBeside(others []found) {
	builds := make(map[buildKey]bool)
	for name := range r.there {
		parts := strings.Split(name, "/")
		builds[buildKey{parts[1], parts[2]}] = true
	}
	for _, f := range others {
		if !builds[buildKey{f.target, f.build}] && r.isOld(f) {
			r.removeOther(f)
		}
	}
}

// removeOther removes a file that is no profile.
func (r *retaining) removeOther(f found) {
	if err := r.disk.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		r.log.Error("cannot remove old file", "error", err)
		return
	}
	delete(r.recorded, f.path)
	r.total -= f.info.Size()
	r.removeEmpty(f.path)
}

// isOld reports whether a file was not written to for as long as files are kept, or there is no room.
func (r *retaining) isOld(f found) bool {
	return r.Keep > 0 && r.now.Sub(f.info.ModTime()) > r.Keep || r.MaxBytes > 0 && r.total > r.MaxBytes
}
