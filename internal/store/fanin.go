package store

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"time"
)

// fanInName is the name of the file of fan-in of a build, beside the directories of its events.
const fanInName = "fleet.fanin"

// Bounds of such files.
const (
	mostFanIn     = 32 << 20 // bytes
	mostFanInHead = 4 << 10  // bytes of the line before
	fanInBegin    = 64       // bytes after the longest such line, that tell what the file is
	fanInShare    = 10       // all of them have so small a part of the room
)

// FanIn is what a hub knows of the fan-in of a program: a file of package fanin, and where it is from.
type FanIn struct {
	Build   string    `json:"build"` // the whole id: names of directories are shortened
	Unit    string    `json:"unit"`  // kind/base
	Hub     string    `json:"hub"`   // URL
	Tag     string    `json:"tag"`   // by which the hub knows the file; empty: it has none
	Methods int       `json:"methods"`
	Got     time.Time `json:"got"`

	File []byte `json:"-"`
}

// PutFanIn keeps what a hub knows of the fan-in of a program, in place of what was kept.
func (s *Store) PutFanIn(target string, f FanIn) error {
	name, err := fanInPath(target, f.Build)
	if err != nil {
		return fmt.Errorf("keep fan-in: %w", err)
	}
	head, err := json.Marshal(f)
	if err == nil && (len(head) > mostFanInHead || len(head)+1+len(f.File) > mostFanIn) {
		err = fmt.Errorf("%d bytes are too many", len(head)+len(f.File))
	}
	if err != nil {
		return fmt.Errorf("keep fan-in: %w", err)
	}
	s.filing.Lock()
	defer s.filing.Unlock()
	if s.isClosed() {
		return fmt.Errorf("keep fan-in: store %s: %w", s.Dir, fs.ErrClosed)
	}
	err = s.replace(name, func(w io.Writer) error {
		_, err := w.Write(slices.Concat(head, []byte("\n"), f.File))
		return err
	})
	if err != nil {
		return fmt.Errorf("keep fan-in: %w", err)
	}
	return nil
}

// DropFanIn removes what is kept of the fan-in of a program, if there is any.
func (s *Store) DropFanIn(target, build string) error {
	name, err := fanInPath(target, build)
	if err != nil {
		return fmt.Errorf("drop fan-in: %w", err)
	}
	s.filing.Lock()
	defer s.filing.Unlock()
	if err := s.disk.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("drop fan-in: %w", err)
	}
	return nil
}

// FanIn returns what is kept of the fan-in of a program. It is of no owner: the caller decides who may see how much. The
// error wraps [fs.ErrNotExist] if nothing is kept. The file is as it was put, and was not read.
func (r *Reader) FanIn(target, build string) (FanIn, error) { return r.fanIn(target, build, mostFanIn) }

// FanInHead returns the same as FanIn, with no more of the file than its beginning.
func (r *Reader) FanInHead(target, build string) (FanIn, error) {
	return r.fanIn(target, build, mostFanInHead+fanInBegin)
}

// fanIn reads so many bytes of what is kept.
func (r *Reader) fanIn(target, build string, most int64) (FanIn, error) {
	name, err := fanInPath(target, build)
	if err != nil {
		return FanIn{}, fmt.Errorf("read fan-in: %w", err)
	}
	file, err := r.disk.Open(name)
	if err != nil {
		return FanIn{}, fmt.Errorf("read fan-in: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, most))
	if err != nil {
		return FanIn{}, fmt.Errorf("read fan-in: %w", err)
	}
	f, err := parseFanIn(text)
	if err == nil && f.Build != build {
		err = fs.ErrNotExist // of another build whose id begins so
	}
	if err != nil {
		return FanIn{}, fmt.Errorf("read fan-in of %s: %w", name, err)
	}
	return f, nil
}

// parseFanIn takes a file apart.
func parseFanIn(text []byte) (f FanIn, err error) {
	head, file, found := bytes.Cut(text, []byte("\n"))
	if !found || len(head) > mostFanInHead {
		return f, errors.New("it does not begin as one")
	}
	if err := json.Unmarshal(head, &f); err != nil {
		return f, err
	}
	f.File = file
	return f, nil
}

func fanInPath(target, build string) (string, error) {
	if !isName(target) || build == "" {
		return "", fmt.Errorf("%q, build %q: %w", target, build, fs.ErrNotExist)
	}
	return path.Join(targetsDir, target, BuildName(build), fanInName), nil
}

// removeFanIns removes the oldest files of fan-in, until the others have a small part of the room: a hub must not push
// out what was sampled.
func (r *retaining) removeFanIns(files []found) (left []found) {
	if r.MaxBytes <= 0 {
		return files
	}
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b found) int {
		return cmp.Or(a.info.ModTime().Compare(b.info.ModTime()), cmp.Compare(a.path, b.path))
	})
	size := sizeOf(files)
	for len(files) > 0 && size > r.MaxBytes/fanInShare {
		oldest := files[0]
		files = files[1:]
		size -= oldest.info.Size()
		r.removeOther(oldest)
	}
	return files
}
