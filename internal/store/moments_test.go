package store

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/moments"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// keepMoments files moments, whose times are of Unix, as of a time.
func keepMoments(t interface {
	Helper()
	Fatal(...any)
}, s *Store, k Key, all []ccmap.Moment) (name string) {
	t.Helper()
	first := slices.MinFunc(all, func(a, b ccmap.Moment) int { return cmp.Compare(a.Time, b.Time) })
	name, err := s.BeginMoments(k, time.Unix(0, first.Time))
	if err != nil {
		t.Fatal(err)
	}
	if err := moments.Write(fileOf{s, name}, slices.Values(all)); err != nil {
		t.Fatal(err)
	}
	return name
}

// fileOf appends to a file of moments.
type fileOf struct {
	*Store
	name string
}

func (f fileOf) Write(b []byte) (int, error) { return len(b), f.AppendMoments(f.name, b) }

// TestSpan: the profile of a time has the samples that were taken in it, in their contexts: as a map of these samples
// has them. Contexts that no stored profile has are counted, too.
func TestSpan(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		names := ccmap.NewNames()
		second := func(label string) int64 {
			return day.UnixNano() + int64(time.Second)*rapid.Int64Range(0, 100).Draw(t, label)
		}
		from, to := second("from"), second("to")
		to = max(to, from+1)
		want := ccmap.New(ccmap.Options{Names: names})
		for range rapid.IntRange(1, 3).Draw(t, "periods") {
			var all []ccmap.Moment
			m := ccmap.New(ccmap.Options{Names: names, Moments: func(m ccmap.Moment) { all = append(all, m) }})
			for _, sample := range profiletest.Samples(t, names) {
				sample.Time, sample.Fresh = second("at"), ccmap.FreshUnknown
				m.Fold(&sample)
				if sample.Time >= from && sample.Time < to {
					want.Fold(&sample)
				}
			}
			if len(all) == 0 {
				continue
			}
			if _, err := s.File(web, day, day.Add(time.Hour), m.Snapshot()); err != nil {
				t.Fatal(err)
			}
			keepMoments(t, s, web, all)
		}
		at := time.Unix(0, from).UTC().Format(time.RFC3339Nano) + ".." + time.Unix(0, to).UTC().Format(time.RFC3339Nano)
		got, err := sumOfSpan(s.Reader(), at)
		if code := advice.CodeOf(err); code == advice.CodeNoTarget && want.Snapshot().Total().IsZero() {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		mustHave(t, got.Snapshot(), want.Snapshot())
		moments := 0
		for m := range got.Snapshot().Moments() {
			if moments++; m.Time < from || m.Time >= to {
				t.Errorf("there is a moment of %v", time.Unix(0, m.Time))
			}
		}
		if total := want.Snapshot().Total().Samples; int64(moments) != total {
			t.Errorf("%d moments of %d samples", moments, total)
		}
	})
}

func sumOfSpan(r *Reader, at string) (*ccmap.Map, error) {
	entries, err := r.Resolve(Reference{Kind: spanKind, Name: "web", At: at}, Filter{}, day)
	if err != nil {
		return nil, err
	}
	return r.Sum(entries)
}

// mustHave compares the samples of contexts, and their time.
func mustHave(t *rapid.T, got, want *ccmap.Snapshot) {
	t.Helper()
	of := func(s *ccmap.Snapshot) map[uint64]ccmap.Counters {
		all, ids := make(map[uint64]ccmap.Counters), s.PathIDs()
		for n := range s.Nodes() {
			if n.Self.Activations = 0; !n.Self.IsZero() {
				all[ids[n.ID]] = n.Self
			}
		}
		return all
	}
	g, w := of(got), of(want)
	for id, c := range w {
		if g[id] != c {
			t.Errorf("context %#x has %v, want %v", id, g[id], c)
		}
	}
	if len(g) != len(w) {
		t.Errorf("%d contexts, want %d", len(g), len(w))
	}
}

// TestSpanWithoutContexts: samples of contexts that are in no period are counted as unknown, and said.
func TestSpanWithoutContexts(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	fileAt(t, s, web, day, profile(1))
	keepMoments(t, s, web, []ccmap.Moment{{Time: day.UnixNano(), Path: 12345, Weight: 7}})
	m, err := sumOfSpan(s.Reader(), "2026-11-20")
	if err != nil {
		t.Fatal(err)
	}
	whole := m.Snapshot()
	unknown, _ := whole.Method(ccmap.UnknownID)
	if c := unknown.Self(); c.Samples != 1 || c.Time != 7 || whole.Total().Samples != 1 || len(whole.Meta().Comments) != 1 {
		t.Errorf("%v of %v, comments %q", c, whole.Total(), whole.Meta().Comments)
	}
}

// TestMomentsGo: moments go when they are old, and the oldest when they have more than a tenth of the room; what is
// left of the store then stays.
func TestMomentsGo(t *testing.T) {
	t.Parallel()
	const size = 100 << 10 // of each file: moments that do not compress
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir, Moments: 48 * time.Hour})
	period := fileAt(t, s, web, day, profile(1))
	var names []string
	for i := range 4 {
		at := day.Add(time.Duration(i) * 24 * time.Hour)
		name, err := s.BeginMoments(web, at)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AppendMoments(name, make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(filepath.Join(dir, name), at, at); err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	left := func() (all []string) {
		for _, name := range names {
			if exists(s.disk, name) {
				all = append(all, name)
			}
		}
		return all
	}
	s.Retain(day.Add(72 * time.Hour))
	if got := left(); !slices.Equal(got, names[1:]) {
		t.Errorf("after 72 h there are %q", got)
	}
	s.SetBounds(0, 0, 10*(2*size+size/2))
	s.Retain(day.Add(72 * time.Hour))
	if got := left(); !slices.Equal(got, names[2:]) {
		t.Errorf("in a tenth of the room there are %q", got)
	}
	s.SetBounds(0, 0, size)
	s.Retain(day.Add(72 * time.Hour))
	if _, err := os.Stat(period); err != nil || len(left()) > 0 {
		t.Errorf("with little room there are %q, and the period: %v", left(), err)
	}
}

// TestMomentsOfOthers: a user has the moments of their own processes alone.
func TestMomentsOfOthers(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	other := web
	other.Owner = process.Owner{UID: 1001, GID: 1001, Traceable: true}
	for i, k := range []Key{web, other, other} {
		m := ccmap.New(ccmap.Options{})
		var all []ccmap.Moment
		tell := ccmap.New(ccmap.Options{Names: m.Names(), Moments: func(m ccmap.Moment) { all = append(all, m) }})
		sample := ccmap.Sample{Time: day.UnixNano() + int64(i), Weight: 1, Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: "main.main"}), Offset: 1}}}
		tell.Fold(&sample)
		fileAt(t, s, k, day, tell.Snapshot())
		keepMoments(t, s, k, all)
	}
	for uid, want := range map[int]int64{1000: 1, 1001: 2, 1002: 0} {
		r := s.Reader()
		entries, err := r.Resolve(Reference{Kind: spanKind, Name: "web", At: "2026-11-20"}, Filter{Visible: func(o process.Owner) bool { return o.UID == uid }}, day)
		if want == 0 {
			if advice.CodeOf(err) != advice.CodeNoTarget {
				t.Errorf("user %d: %v", uid, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Sum(entries)
		if err != nil || m.Snapshot().Total().Samples != want {
			t.Errorf("user %d: %v samples, %v; want %d", uid, m.Snapshot().Total(), err, want)
		}
	}
}
