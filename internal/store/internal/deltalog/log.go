package deltalog

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

// Disk is the file system of a log.
type Disk interface {
	Create(name string) (disk.File, error)
	Open(name string) (disk.Source, error)
	List(dir string) ([]fs.FileInfo, error)
	Remove(name string) error
	SyncDir(dir string) error
}

// Position says where a frame is.
type Position struct {
	Segment uint64
	offset  int64
	size    int64
}

// segment is a file of a log.
type segment struct {
	number uint64
	salt   salt
}

const suffix = ".seg"

func (s segment) name() string { return fmt.Sprintf("%010d-%x%s", s.number, s.salt, suffix) }

// parseName reads the name of a segment.
func parseName(name string) (s segment, ok bool) {
	stem, ok := strings.CutSuffix(name, suffix)
	number, text, found := strings.Cut(stem, "-")
	if !ok || !found {
		return s, false
	}
	raw, err := hex.DecodeString(text)
	n, err2 := strconv.ParseUint(number, 10, 63)
	if err != nil || err2 != nil || len(raw) != len(s.salt) {
		return s, false
	}
	s = segment{number: n, salt: salt(raw)}
	return s, s.name() == name
}

// Log is a log that is open. One goroutine at a time may call its methods.
type Log struct {
	disk     Disk
	dir      string
	segments []segment // the oldest first
	last     uint64    // number of the newest segment that there ever was

	w     disk.File // the newest segment; nil: the next frame begins one
	size  int64     // of it: acknowledged bytes
	began time.Time // when it was begun
	buf   []byte

	r      disk.Source // the segment that was read last; nil: none
	rIsFor uint64
}

// Open opens the log of a directory, which need not exist.
func Open(d Disk, dir string) (*Log, error) {
	entries, err := d.List(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("open log: %w", err)
	}
	l := &Log{disk: d, dir: dir}
	for _, e := range entries {
		if s, ok := parseName(e.Name()); ok && e.Mode().IsRegular() {
			l.segments = append(l.segments, s)
			l.last = max(l.last, s.number)
		}
	}
	slices.SortFunc(l.segments, func(a, b segment) int { return strings.Compare(a.name(), b.name()) })
	return l, nil
}

// Scan calls f with each whole frame, the oldest first. The frame is valid during the call. A segment that cannot be
// read is damage: the others are read. A segment that another process removes meanwhile is none.
func (l *Log) Scan(f func(Position, Frame)) Damage {
	var all Damage
	for _, s := range l.segments {
		d, err := l.scan(s, f)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			d.Unread++
		}
		all.add(d)
	}
	return all
}

func (l *Log) scan(s segment, f func(Position, Frame)) (Damage, error) {
	r, err := l.disk.Open(path.Join(l.dir, s.name()))
	if err != nil {
		return Damage{}, err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return Damage{}, err
	}
	return scan(r, info.Size(), s.salt, func(frame Frame, off, size int64) {
		f(Position{s.number, off, size}, frame)
	})
}

// Read returns the frame at a position that Scan or Append has given.
func (l *Log) Read(p Position) (Frame, error) {
	i := slices.IndexFunc(l.segments, func(s segment) bool { return s.number == p.Segment })
	if i < 0 {
		return Frame{}, fmt.Errorf("read log: segment %d is gone: %w", p.Segment, fs.ErrNotExist)
	}
	if err := l.toRead(l.segments[i]); err != nil {
		return Frame{}, fmt.Errorf("read log: %w", err)
	}
	b := make([]byte, p.size)
	if _, err := l.r.ReadAt(b, p.offset); err != nil {
		return Frame{}, fmt.Errorf("read log: %w", err)
	}
	if n, ok := sizeOf(b, l.segments[i].salt); ok && n == p.size {
		if frame, ok := parse(b); ok {
			return frame, nil
		}
	}
	return Frame{}, errors.New("read log: a frame was damaged since it was found")
}

// toRead opens a segment for reading.
func (l *Log) toRead(s segment) error {
	if l.r != nil && l.rIsFor == s.number {
		return nil
	}
	l.endRead()
	r, err := l.disk.Open(path.Join(l.dir, s.name()))
	if err == nil {
		l.r, l.rIsFor = r, s.number
	}
	return err
}

func (l *Log) endRead() {
	if l.r != nil {
		l.r.Close()
		l.r = nil
	}
}

// Append writes frames with one sync, and returns where they are. On an error none is acknowledged: a frame may be
// in the log or not. The log goes on: in a new segment if the old one may not keep what it has taken.
func (l *Log) Append(frames []Frame) ([]Position, error) {
	if l.w == nil {
		if err := l.begin(); err != nil {
			return nil, fmt.Errorf("begin segment of the log: %w", err)
		}
	}
	s, places := l.segments[len(l.segments)-1], make([]Position, len(frames))
	l.buf = l.buf[:0]
	for i := range frames {
		begin := len(l.buf)
		var err error
		if l.buf, err = appendFrame(l.buf, s.salt, &frames[i]); err != nil {
			return nil, err
		}
		places[i] = Position{s.number, l.size + int64(begin), int64(len(l.buf) - begin)}
	}
	if err := l.write(); err != nil {
		return nil, fmt.Errorf("append to the log: %w", err)
	}
	return places, nil
}

// write writes and syncs the buffer.
func (l *Log) write() error {
	_, err := l.w.Write(l.buf)
	if err != nil {
		if l.w.Truncate(l.size) != nil {
			l.Roll()
		}
		return err
	}
	if err := l.w.Sync(); err != nil {
		l.Roll() // after an error the kernel may take pages for clean that were never written (fsync(2))
		return err
	}
	l.size += int64(len(l.buf))
	const most = 1 << 20
	if cap(l.buf) > most {
		l.buf = nil
	}
	return nil
}

// begin begins a segment.
func (l *Log) begin() error {
	s := segment{number: l.last + 1}
	rand.Read(s.salt[:])
	name := path.Join(l.dir, s.name())
	w, err := l.disk.Create(name)
	if err != nil {
		return err
	}
	if err := l.disk.SyncDir(l.dir); err != nil {
		w.Close()
		l.disk.Remove(name)
		return err
	}
	l.segments = append(l.segments, s)
	l.last, l.w, l.size, l.began = s.number, w, 0, time.Now()
	return nil
}

// Roll ends the newest segment: the next frame begins one.
func (l *Log) Roll() {
	if l.w != nil {
		l.w.Close()
		l.w = nil
	}
}

// Newest returns the size of the segment that is written to, in bytes, and its age.
func (l *Log) Newest() (size int64, age time.Duration) {
	if l.w == nil {
		return 0, 0
	}
	return l.size, time.Since(l.began)
}

// DropBefore removes the segments before a number, the oldest first, and never the one that is written to. A later
// frame may make an earlier one void: so each removal is durable before the next.
func (l *Log) DropBefore(number uint64) error {
	for len(l.segments) > 0 && l.segments[0].number < number && (l.w == nil || len(l.segments) > 1) {
		err := l.disk.Remove(path.Join(l.dir, l.segments[0].name()))
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			err = l.disk.SyncDir(l.dir)
		}
		if err != nil {
			return fmt.Errorf("drop segment of the log: %w", err)
		}
		l.segments = l.segments[1:]
	}
	return nil
}

// Next returns the number of the first segment that does not exist yet.
func (l *Log) Next() uint64 { return l.last + 1 }

// Close ends the log.
func (l *Log) Close() {
	l.endRead()
	l.Roll()
}

// Size returns how many bytes the frame takes.
func (p Position) Size() int64 { return p.size }
