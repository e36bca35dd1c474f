package store

import (
	"cmp"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/column"
	"github.com/ccmapd/ccmapd/internal/store/internal/deltalog"
)

// kind is short for a kind of frames.
type kind = deltalog.Kind

// Recovered has the counts of a key that are in the log and in no file: their process has ended without filing them.
type Recovered struct {
	Key      Key
	Process  Process // of the last frame
	From, To time.Time
	Map      *ccmap.Map
	Stream   *Stream // goes on with all of it
	Lost     int     // frames that could not be read
}

// readLog reads the log, and decides which files that were announced count.
func (s *Store) readLog() {
	s.damage = s.journal.Scan(s.ledger.read)
	if text := describeDamage(s.damage, s.ledger.unread); text != "" {
		s.log.Warn("the log of the store is damaged: what is whole was kept", "damage", text)
	}
	s.endFilings()
	s.ledger.settle()
	s.recovered = s.ledger.byKey()
	s.dropSegments()
}

// describeDamage counts the parts that were skipped, "" if none was. A torn end is no damage: a kill leaves one.
func describeDamage(d deltalog.Damage, unread int) string {
	if d.Stretches == 0 && d.Unread == 0 && unread == 0 {
		return ""
	}
	d.Unread += unread
	return d.String()
}

// endFilings decides about each file that was announced, and says so in the log: such a file may be removed later.
func (s *Store) endFilings() {
	for _, name := range slices.Sorted(maps.Keys(s.ledger.filings)) {
		h := head{Path: name, Marks: s.ledger.filings[name]}
		k := kindVoid
		if exists(s.disk, name) {
			k = kindFiled
		} else if err := removeForSure(s.disk, name); err != nil { // it may have been removed by a process that was killed
			s.returning = append(s.returning, name)
		}
		s.ledger.note(deltalog.Position{}, k, 0, 0, &h)
		if _, err := s.journal.Append([]deltalog.Frame{h.frame(k)}); err != nil {
			s.log.Error("cannot note in the log of the store that a file is there", "path", name, "error", err)
			if k == kindFiled {
				s.unconfirmed = append(s.unconfirmed, h)
			}
		}
	}
}

// exists reports whether a file is there. One that cannot be looked at may be.
func exists(d fileSystem, name string) bool {
	_, err := d.Stat(name)
	return !errors.Is(err, fs.ErrNotExist)
}

// Recovered returns the counts that were in the log and in no file when the store was opened, one a key. It reads the
// frames, which may take seconds, and may be called beside all else, once, and before the first File.
func (s *Store) Recovered() []Recovered {
	s.mu.Lock()
	keys := s.recovered
	s.recovered = nil
	s.mu.Unlock()
	var all []Recovered
	for _, k := range slices.SortedFunc(maps.Keys(keys), compareKeys) {
		r, _ := merge(k, keys[k], s.readFrame, nil)
		r.Stream = s.NewStream(k)
		for _, t := range keys[k] {
			r.Stream.absorbed = append(r.Stream.absorbed, mark{t.id, t.last})
		}
		if r.Lost > 0 {
			s.log.Warn("frames of the log of the store cannot be read", "target", k.Target, "frames", r.Lost)
		}
		all = append(all, r)
	}
	return all
}

func compareKeys(a, b Key) int {
	if c := strings.Compare(a.Target, b.Target); c != 0 {
		return c
	}
	if c := strings.Compare(a.Build, b.Build); c != 0 {
		return c
	}
	if c := strings.Compare(a.Unit.String(), b.Unit.String()); c != 0 {
		return c
	}
	return a.Owner.Compare(b.Owner)
}

// readFrame returns a frame of the log.
func (s *Store) readFrame(at deltalog.Position) (deltalog.Frame, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.journal.Read(at)
}

// merge adds up the streams of a key. A VM counts its points itself, since the start of its process: of the streams
// of one start the last one has them all, and the points of several starts add up. The error is the load's.
func merge(k Key, streams []stream, read func(deltalog.Position) (deltalog.Frame, error), l *load) (Recovered, error) {
	r := Recovered{Key: k, Map: ccmap.New(ccmap.Options{})}
	last := make(map[Process]uint64) // stream that has counted for a process
	for _, t := range streams {
		for _, f := range t.frames {
			last[f.process] = t.id
			if r.From.IsZero() || f.from.Before(r.From) {
				r.From = f.from
			}
			if !f.to.Before(r.To) {
				r.To, r.Process = f.to, f.process
			}
		}
	}
	decoder := column.NewDecoder(r.Map.Names())
	for _, t := range streams {
		for _, f := range t.frames {
			if err := r.add(decoder, f, read, last[f.process] == t.id, l); err != nil {
				r.Lost++
			}
			if err := l.hold(r.Map); err != nil {
				return r, err
			}
		}
	}
	BoundMeta(r.Map.Meta())
	r.Map.Meta().Target.Commit = commitOf(streams)
	return r, nil
}

// commitOf returns when the source of the build was committed that streams are of; zero: none of them knows.
func commitOf(streams []stream) (commit time.Time) {
	for _, t := range streams {
		for _, f := range t.frames {
			commit = cmp.Or(commit, f.commit)
		}
	}
	return commit
}

// add adds a frame, within a load.
func (r *Recovered) add(d *column.Decoder, f logged, read func(deltalog.Position) (deltalog.Frame, error), hasPoints bool, l *load) error {
	if err := l.take(f.at.Size(), f.at.Size()); err != nil {
		return err
	}
	frame, err := read(f.at)
	if err != nil {
		return err
	}
	m, err := decodeBody(d, frame.Body, frame.Encoding, l)
	if err != nil {
		return err
	}
	if !hasPoints {
		m.SetPoints(ccmap.OriginVM, nil)
	}
	return r.Map.Merge(m.Snapshot())
}
