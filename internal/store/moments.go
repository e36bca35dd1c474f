package store

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/moments"
)

// Moments say when samples were counted, beside the periods, which say in which contexts. A kill may cut the last
// chunk: moments are not synced, as no count depends on them.

// momentsShare is the part of the room that moments may take.
const momentsShare = 10

// parseMomentsName reads the name of a file of moments: FROM.moments, or FROM.u1000g1000.moments.
func parseMomentsName(name string) (n fileName, ok bool) {
	stem, ok := strings.CutSuffix(name, momentType)
	if !ok {
		return n, false
	}
	if stem, n.owner, ok = cutOwner(stem); !ok {
		return n, false
	}
	var err error
	n.from, err = time.Parse(periodTime, stem)
	return n, err == nil
}

// BeginMoments returns the name of a new file of moments from a time on, below the directory of the store.
func (s *Store) BeginMoments(k Key, from time.Time) (string, error) {
	if !isName(k.Target) {
		return "", fmt.Errorf("keep moments: %q cannot be the name of a directory", k.Target)
	}
	for {
		name := path.Join(k.dir(), from.UTC().Format(periodTime)+ownerMark(k.Owner)+momentType)
		f, err := s.disk.Create(name)
		if err == nil {
			return name, f.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", fmt.Errorf("keep moments: %w", err)
		}
		from = from.Add(time.Millisecond) // of another process of the target
	}
}

// AppendMoments appends what a log of moments has given to a file of its own.
func (s *Store) AppendMoments(name string, chunk []byte) error {
	f, err := s.disk.Extend(name)
	if err != nil {
		return fmt.Errorf("keep moments: %w", err)
	}
	_, err = f.Write(chunk)
	return errors.Join(err, f.Close())
}

// removeMoments removes old files of moments, and then the oldest until the rest is a tenth of all that may be kept,
// or until all is within the bound.
func (r *retaining) removeMoments(all []found) {
	slices.SortFunc(all, func(a, b found) int { return cmp.Or(a.to.Compare(b.to), cmp.Compare(a.path, b.path)) })
	own, keep := sizeOf(all), cmp.Or(r.Moments, r.Keep)
	for _, f := range all {
		old := keep > 0 && r.now.Sub(f.to) > keep
		if !old && (r.MaxBytes <= 0 || own <= r.MaxBytes/momentsShare && r.total <= r.MaxBytes) {
			return
		}
		if err := r.disk.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.log.Error("cannot remove old moments", "error", err)
			continue
		}
		own -= f.info.Size()
		r.total -= f.info.Size()
		r.removeEmpty(f.path)
	}
}

// momentsLate is how much earlier than its first moment a file may have others: threads deliver them late.
const momentsLate = time.Minute

// spanKind is the kind of references to a time, out of moments.
const spanKind = "span"

// spanOf returns the files that have moments of a time, and the profiles that have their contexts.
func (r *Reader) spanOf(own []Entry, ref Reference, f Filter, now time.Time) ([]Entry, error) {
	from, to, err := parseSpan(ref.At, now)
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, file := range walk(r.disk).moments {
		e := Entry{
			Kind: KindMoments, Target: file.target, Build: file.build, Event: file.event, Owner: file.owner,
			From: from.UTC(), To: to.UTC(), Path: filepath.Join(r.dir, file.path), Name: file.path, Size: file.info.Size(),
		}
		if e.Target == ref.Name && f.takes(&e) && file.from.Add(-momentsLate).Before(to) && !file.to.Before(from) {
			all = append(all, e)
		}
	}
	if len(all) == 0 {
		return nil, &advice.Error{
			Code: advice.CodeNoTarget, Err: fmt.Errorf("%s has no moments from %s to %s", ref.Name, from.Format(time.RFC3339), to.Format(time.RFC3339)),
			Hint: "The daemon keeps them where moments = \"1d\" is set in [store].",
		}
	}
	for _, e := range own {
		if (e.Kind == KindPeriod || e.Kind == KindRunning) && e.From.Before(to) && !e.To.Before(from) {
			all = append(all, e)
		}
	}
	return all, nil
}

// usualSpan is the time of a span that names none.
const usualSpan = 24 * time.Hour

// parseSpan returns the time from FROM to TO, of a day or an hour, or the last one.
func parseSpan(s string, now time.Time) (from, to time.Time, err error) {
	if s == "" {
		return now.Add(-usualSpan), now, nil
	}
	begin, end, isSpan := strings.Cut(s, "..")
	if from, to, err = ParseTime(begin, now); err != nil {
		return from, to, err
	}
	if isSpan {
		to, _, err = ParseTime(end, now)
	}
	if err == nil && !from.Before(to) {
		err = &advice.Error{Code: advice.CodeUsage, Err: fmt.Errorf("%q has no end after its begin", s),
			Hint: "Write a span as 2026-11-20T10:30..2026-11-20T10:45, or as a day or an hour."}
	}
	return from, to, err
}

// splitMoments tells the entries of moments from the others.
func splitMoments(entries []Entry) (others, moments []Entry) {
	for _, e := range entries {
		if e.Kind == KindMoments {
			moments = append(moments, e)
		} else {
			others = append(others, e)
		}
	}
	return others, moments
}

// walkMoments calls each with the moments of an entry.
func (r *Reader) walkMoments(e Entry, each func(ccmap.Moment) bool) (lost uint64, err error) {
	f, err := r.disk.Open(e.Name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	from, to := e.From.UnixNano(), e.To.UnixNano()
	return moments.Read(io.LimitReader(f, e.Size), func(m ccmap.Moment) bool {
		return m.Time < from || m.Time >= to || each(m)
	})
}

// allMoments returns the moments of entries, as far as they can be read: what cannot was said when they were counted.
func (r *Reader) allMoments(entries []Entry) iter.Seq[ccmap.Moment] {
	return func(yield func(ccmap.Moment) bool) {
		goesOn := true
		for _, e := range entries {
			_, _ = r.walkMoments(e, func(m ccmap.Moment) bool { goesOn = yield(m); return goesOn })
			if !goesOn {
				return
			}
		}
	}
}

// span returns the profile of moments, whose contexts others have.
func (r *Reader) span(others *ccmap.Snapshot, entries []Entry, l *load) (*ccmap.Map, error) {
	const memory = 64 // bytes of a context
	counts := make(map[uint64]ccmap.Counters)
	var notes []string
	var failed error
	for _, e := range entries {
		lost, err := r.walkMoments(e, func(m ccmap.Moment) bool {
			c, known := counts[m.Path]
			counts[m.Path] = c.Add(ccmap.Counters{Samples: 1, Time: m.Weight})
			if !known {
				failed = l.take(0, memory)
			}
			return failed == nil
		})
		switch {
		case failed != nil:
			return nil, failed
		case err != nil:
			notes = append(notes, ccmap.CommentWarning+fmt.Sprintf("some moments cannot be read: %v", err))
		}
		if lost > 0 {
			notes = append(notes, ccmap.CommentWarning+fmt.Sprintf("the moments of %d samples were not kept: there were too many at once", lost))
		}
	}
	m, missing := spread(others, counts)
	if missing > 0 {
		notes = append(notes, ccmap.CommentWarning+fmt.Sprintf("%d samples are of contexts that no stored profile has: they are %s", missing, ccmap.UnknownName))
	}
	describeSpan(m.Meta(), others.Meta(), entries[0], notes)
	m.SetMoments(r.allMoments(entries))
	return m, l.hold(m)
}

// spread returns a map of the contexts of a snapshot that have counts, and the samples of contexts that it lacks.
func spread(of *ccmap.Snapshot, counts map[uint64]ccmap.Counters) (m *ccmap.Map, missing int64) {
	of = of.WithoutLabels()
	m = ccmap.New(ccmap.Options{Names: of.Names()})
	m.SetExact(false)
	ids, moved := of.PathIDs(), make([]ccmap.NodeID, of.Len())
	var path []ccmap.Node
	for n := range ccmap.NodeID(of.Len()) {
		c, wanted := counts[ids[n]]
		if !wanted || n == 0 {
			continue
		}
		delete(counts, ids[n])
		path = path[:0]
		for at := n; at != 0 && moved[at] == 0; at = of.Node(at).Parent {
			path = append(path, of.Node(at))
		}
		for _, what := range slices.Backward(path) {
			moved[what.ID] = m.Child(moved[what.Parent], what.Offset, what.Method)
		}
		m.Add(moved[n], c)
	}
	for _, c := range counts {
		missing += c.Samples
		m.Add(m.Child(0, ccmap.NoOffset, ccmap.UnknownID), c)
	}
	return m, missing
}

// describeSpan describes a part of a profile.
func describeSpan(m *ccmap.Meta, whole ccmap.Meta, of Entry, notes []string) {
	*m = ccmap.Meta{
		Target: whole.Target, Engine: whole.Engine, Unit: whole.Unit, Start: of.From, Duration: of.To.Sub(of.From),
		Interval: whole.Interval, Comments: notes,
	}
	BoundMeta(m)
}
