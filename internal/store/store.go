package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/safepath"
	"github.com/ccmapd/ccmapd/internal/store/internal/deltalog"
	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
)

// Options of a store.
type Options struct {
	Dir      string
	Keep     time.Duration // how long files are kept; 0: no bound
	MaxBytes int64         // of all files and the log; 0: no bound
	Moments  time.Duration // how long moments are kept; 0: as other files
	Logger   *slog.Logger  // nil: none

	Progress func(done, of int) // Compact calls it before each day; nil: not
}

// Version is the version of the layout and of the log. A store of a later one is refused.
const Version = 1

// ErrLocked is the error of opening a store that another process writes to.
var ErrLocked = errors.New("another process writes to the store")

// ErrNewer is the error of opening a store of a later version of ccmapd.
var ErrNewer = errors.New("the store was written by a later version")

// Store is a directory of profiles that this process may write to. Any goroutine may call its methods.
//
//	journal, ledger, unconfirmed, returning, recovered, damage, closed    under mu: one append at a time
//	index … outbox    under filing: one change of the files at a time. filing is locked before mu
//	Options                     Keep, MaxBytes and Moments under filing; the others never change
type Store struct {
	Options
	disk fileSystem
	lock dirLock
	log  *slog.Logger

	mu          sync.Mutex
	journal     *deltalog.Log
	ledger      *ledger
	unconfirmed []head   // files that are there, and that the log does not know of yet
	returning   []string // files that were removed, and may be there again after a power cut
	recovered   map[Key][]stream
	damage      deltalog.Damage
	closed      bool

	filing    sync.Mutex
	index     *index
	unlike    map[phaseKey]int // periods in a row that were unlike all phases
	opened    time.Time
	retention retention
	recorded  map[string]bool // files of compile records that end with a whole line
	shared    bool            // other processes append to them, too
	outbox    *Outbox         // nil: nothing is sent to a hub
}

// fileSystem is the file system of a store: [disk.Dir], or one of tests.
type fileSystem interface {
	deltalog.Disk
	Stat(name string) (fs.FileInfo, error)
	Rename(from, to string) error
	Link(from, to string) error
	Extend(name string) (disk.File, error)
}

// Open opens the store of a directory, makes it if it is missing, and locks it. It reads which frames of the log are
// in no file; damage is counted and logged, and no error. An error with a cure wraps [ErrLocked], [ErrNewer] or
// [safepath.ErrOthers].
func Open(o Options) (*Store, error) {
	lock, err := lockDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", o.Dir, err)
	}
	s, err := open(o, disk.At(o.Dir))
	if err == nil {
		if err = makeTargets(o.Dir); err != nil {
			s.journal.Close()
		}
	}
	if err != nil {
		lock.Close()
		return nil, fmt.Errorf("open store %s: %w", o.Dir, err)
	}
	s.lock = lock
	return s, nil
}

// makeTargets makes the directory of all files: where it cannot be made, the first file would fail in an hour.
func makeTargets(dir string) error {
	d, err := safepath.MakeDir(filepath.Join(dir, targetsDir), disk.Mode)
	if err != nil {
		return withCure(dir, err)
	}
	return d.Close()
}

// open opens the store of a directory that is locked.
func open(o Options, d fileSystem) (*Store, error) {
	s := &Store{
		Options: o, disk: d, log: o.Logger, opened: time.Now(), ledger: newLedger(),
		unlike: make(map[phaseKey]int), recorded: make(map[string]bool),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := s.checkFormat(); err != nil {
		return nil, err
	}
	if err := s.endMerge(); err != nil {
		s.log.Error("cannot end the merge of files that was begun", "error", err)
	}
	var err error
	if s.index, err = readIndex(d); err != nil {
		s.log.Warn("cannot read the index of the store: it is made anew", "error", err)
	}
	if s.journal, err = deltalog.Open(d, logDir); err != nil {
		return nil, err
	}
	s.readLog()
	return s, nil
}

// Close ends the store, and unlocks it. Later calls that write fail with [fs.ErrClosed].
func (s *Store) Close() error {
	s.filing.Lock()
	defer s.filing.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.journal.Close()
	s.closed = true
	if s.lock.File != nil {
		return s.lock.Close()
	}
	return nil
}

// dirLock is the lock of a store. It is freed with the process, too.
type dirLock struct{ *os.File }

// Close frees the lock at once: a child that another goroutine has forked keeps the open file until it execs.
func (l dirLock) Close() error {
	unix.Flock(int(l.Fd()), unix.LOCK_UN)
	return l.File.Close()
}

// lockDir makes the directory and locks it.
func lockDir(dir string) (l dirLock, err error) {
	d, err := safepath.MakeDir(dir, disk.Mode)
	if err != nil {
		return l, err
	}
	defer d.Close()
	f, err := os.OpenFile(safepath.At(d, lockName), os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o640)
	if err != nil {
		return l, withCure(dir, fmt.Errorf("open %s/%s: %w", dir, lockName, unwrapPath(err)))
	}
	switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
	case errors.Is(err, unix.EWOULDBLOCK):
		defer f.Close()
		return l, lockedBy(f)
	case err != nil:
		f.Close()
		return l, fmt.Errorf("lock %s/%s: %w", dir, lockName, err)
	}
	if f.Truncate(0) == nil {
		f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0) // for people
	}
	return dirLock{f}, nil
}

// lockedBy names the process that has a lock.
func lockedBy(f *os.File) error {
	text := make([]byte, 16)
	n, _ := f.ReadAt(text, 0)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text[:n])))
	if err != nil || pid <= 0 {
		return advice.Add(ErrLocked, "Name another directory, or end that process.")
	}
	return advice.Add(fmt.Errorf("%w: process %d", ErrLocked, pid), "Name another directory, or end process %d.", pid)
}

// withCure says how this user gets to write to a directory.
func withCure(dir string, err error) error {
	if _, has := advice.Of(err); !has && (errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.EROFS)) {
		return advice.Add(err, "Let user %d write to %s, or name another directory.", os.Geteuid(), dir)
	}
	return err
}

// unwrapPath drops a path of a descriptor.
func unwrapPath(err error) error {
	var onPath *fs.PathError
	if errors.As(err, &onPath) {
		return onPath.Err
	}
	return err
}

// checkFormat returns an error if the store is of a later version, and notes the version in a new store.
func (s *Store) checkFormat() error {
	version, err := readFormat(s.disk)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s.replace(formatName, func(w io.Writer) error {
			_, err := fmt.Fprintf(w, "ccmapd store %d\n", Version)
			return err
		})
	case err != nil:
		return err
	case version > Version:
		return advice.Add(fmt.Errorf("%w: %d, and this one knows %d", ErrNewer, version, Version),
			"Install that version of ccmapd again, or name another directory.")
	}
	return nil
}

// readFormat returns the version of a store. A file that says nothing counts as of this version: it is damaged.
func readFormat(d fileSystem) (int, error) {
	f, err := d.Open(formatName)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	text := make([]byte, 64)
	n, _ := io.ReadFull(f, text)
	version := Version
	fmt.Sscanf(string(text[:n]), "ccmapd store %d", &version)
	return version, nil
}

// replace writes a file as a whole, and syncs it and its name. After an error the old one still stands, unless the
// error is of the last sync.
func (s *Store) replace(name string, write func(io.Writer) error) error {
	return replace(s.disk, name, write)
}

// Stream is the part of the log that one map has, as its owner counts it. Its methods are the store's.
//
//	id, key      never change
//	all others   under the store's mu
type Stream struct {
	id  uint64
	key Key

	tried    uint64 // number of the last frame that was appended, whether it was acknowledged or not
	acked    uint64 // number of the last frame that counts
	absorbed []mark // recovered streams that it goes on with
}

// Key returns the key of the stream's profile.
func (t *Stream) Key() Key { return t.key }

// marks returns marks of all frames of the stream in the log.
func (t *Stream) marks() (marks []mark) {
	if t.tried > 0 {
		marks = append(marks, mark{t.id, t.tried})
	}
	return append(marks, t.absorbed...)
}

// Frame has the counts of a map since the last frame of its stream.
type Frame struct {
	Stream   *Stream
	Process  Process
	From, To time.Time
	Delta    *ccmap.Snapshot // or, of a Whole, all that the map has counted since it was filed
	Whole    bool            // it stands for all earlier frames of the stream
}

// Bounds of a segment. The age bounds what the next process has to add up before it answers: with 20 busy targets the
// frames of ten minutes took a second, and those of an hour 6.5.
const (
	segmentBytes = 64 << 20
	segmentAge   = 10 * time.Minute
)

// Overgrown reports whether the log is so long or so old that a Whole frame of each stream should follow: the store
// then drops what is before them.
func (s *Store) Overgrown() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.overgrown()
}

func (s *Store) overgrown() bool {
	size, age := s.journal.Newest()
	return size >= segmentBytes || age >= segmentAge
}

// Append appends frames to the log, with one sync for all. On an error none is acknowledged: the caller goes on
// counting, and its next frames have these counts, too. So a frame has all counts since the last one that was
// acknowledged. The frames of one stream are appended one after another.
func (s *Store) Append(frames ...Frame) error {
	if len(frames) == 0 {
		return nil
	}
	bodies := make([]deltalog.Frame, len(frames))
	for i, f := range frames {
		body, encoding := encodeBody(f.Delta)
		bodies[i] = deltalog.Frame{Body: body, Encoding: encoding}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.overgrown() {
		s.journal.Roll()
	}
	heads := make([]head, len(frames))
	for i, f := range frames {
		heads[i] = newHead(f.Stream.key, f.Process, f.From, f.To)
		heads[i].Commit = toUnix(f.Delta.Meta().Target.Commit)
		bodies[i].Kind, bodies[i].Stream = kindDelta, f.Stream.id
		f.Stream.tried++
		bodies[i].Seq, heads[i].After = f.Stream.tried, f.Stream.acked
		if f.Whole {
			bodies[i].Kind, heads[i].Marks = kindWhole, f.Stream.absorbed
		}
		bodies[i].Head = heads[i].frame(0).Head
	}
	if err := s.append(bodies, heads); err != nil {
		return err
	}
	for _, f := range frames {
		f.Stream.acked = f.Stream.tried
		if f.Whole {
			f.Stream.absorbed = nil
		}
	}
	s.dropSegments()
	return nil
}

// append appends frames, and with them the filings that the log has not confirmed yet. The caller holds mu.
func (s *Store) append(frames []deltalog.Frame, heads []head) error {
	if s.closed {
		return fmt.Errorf("store %s: %w", s.Dir, fs.ErrClosed)
	}
	if err := s.takeBack(); err != nil {
		return err
	}
	for i := range s.unconfirmed {
		h := s.unconfirmed[i]
		frames, heads = append(frames, h.frame(kindFiled)), append(heads, h)
	}
	places, err := s.journal.Append(frames)
	if err != nil {
		return fmt.Errorf("store %s: %w", s.Dir, err)
	}
	s.unconfirmed = nil
	for i, f := range frames {
		s.ledger.note(places[i], f.Kind, f.Stream, f.Seq, &heads[i])
	}
	s.ledger.settle()
	return nil
}

// note appends a frame without a body. The caller holds mu.
func (s *Store) note(k deltalog.Kind, h head) error {
	return s.append([]deltalog.Frame{h.frame(k)}, []head{h})
}

// dropSegments drops the segments that no stream needs. The caller holds mu.
func (s *Store) dropSegments() {
	if err := s.journal.DropBefore(s.ledger.oldest(s.journal.Next())); err != nil {
		s.log.Error("cannot shorten the log of the store", "error", err)
	}
}

// NewStream begins a stream. Nothing is written before its first frame.
func (s *Store) NewStream(k Key) *Stream { return &Stream{id: newID(), key: k} }

// Renamed returns a stream of another key that goes on with one. Its first frame must be a Whole: from then on the log
// has what it counts under the new key, once. After an error the old stream goes on.
func (s *Store) Renamed(t *Stream, k Key) *Stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Stream{id: newID(), key: k, absorbed: t.marks()}
}

// Drop gives a stream up: its frames in the log count nowhere. The stream may go on.
func (s *Store) Drop(t *Stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	marks := t.marks()
	if len(marks) == 0 {
		return nil
	}
	if err := s.note(kindDropped, head{Marks: marks}); err != nil {
		return fmt.Errorf("drop a stream: %w", err)
	}
	t.acked, t.absorbed = t.tried, nil
	s.dropSegments()
	return nil
}

// LogBytes returns the size of the log.
func (s *Store) LogBytes() (n int64) {
	infos, _ := s.disk.List(logDir) // without it there is none
	for _, info := range infos {
		n += info.Size()
	}
	return n
}

// ledgerNow returns a copy of what the store knows of its log, as a reader of the log would find it, and its damage.
func (s *Store) ledgerNow() (l *ledger, damage string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ledger.clone(), describeDamage(s.damage, s.ledger.unread)
}

// Damage describes the parts of the log that could not be read when the store was opened, "" if it was whole.
func (s *Store) Damage() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return describeDamage(s.damage, s.ledger.unread)
}
