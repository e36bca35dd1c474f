package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/process"
)

// The table of design: who supersedes whom.
func TestSupersedes(t *testing.T) {
	t.Parallel()
	good := Quality{Samples: 10000, Independent: 10000, Known: true, Settled: 96}
	with := func(change func(*Quality)) Quality {
		q := good
		change(&q)
		return q
	}
	for _, c := range []struct {
		name         string
		recent, best Quality
		want         bool
	}{
		{"equal: the later", good, good, true},
		{"fewer within the noise", with(func(q *Quality) { q.Independent -= 199 }), good, true},
		{"fewer", with(func(q *Quality) { q.Independent -= 201 }), good, false},
		{"not settled", with(func(q *Quality) { q.Settled = 94.9 }), good, false},
		{"pruned a little", with(func(q *Quality) { q.Pruned = 0.009 }), good, true},
		{"pruned", with(func(q *Quality) { q.Pruned = 0.02 }), good, false},
		{"other values", with(func(q *Quality) { q.Other = 0.02 }), good, false},
		{"both pruned", with(func(q *Quality) { q.Pruned = 0.2 }), with(func(q *Quality) { q.Pruned = 0.3 }), true},
		{"unknown over known", with(func(q *Quality) { q.Known = false }), good, false},
		{"known over unknown", good, with(func(q *Quality) { q.Known = false }), true},
	} {
		if got := Supersedes(c.recent, c.best); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// QualityOf counts what a profile lacks.
func TestQuality(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	leaf := m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "a"}))
	m.Add(leaf, ccmap.Counters{Samples: 60, Time: 600})
	m.Add(m.Child(leaf, ccmap.NoOffset, ccmap.PrunedID), ccmap.Counters{Samples: 20, Time: 200})
	m.Add(m.Child(m.Child(0, ccmap.NoOffset, ccmap.TruncatedID), 1, m.Names().Intern(ccmap.Method{Name: "b"})), ccmap.Counters{Samples: 20, Time: 200})
	m.AddPruned(ccmap.PrunedEdge{Caller: 5, Callee: 6, Total: ccmap.Counters{Samples: 20}})
	m.AddPoint(ccmap.Point{Origin: ccmap.OriginBurst, Method: 5, Values: []ccmap.PointValue{{Value: 6, Count: 3}}, Other: 1, Nulls: ccmap.NullsUnknown})
	meta := m.Meta()
	meta.Known, meta.Repeated, meta.Settled.Edges = 90, 30, 97
	meta.Loss = ccmap.Loss{Clock: 2000 * time.Hour, ClockTick: 1, Unaccounted: 500 * time.Hour}
	want := Quality{Samples: 100, Independent: 50, Known: true, Settled: 97, Pruned: 0.2, Other: 0.25, Truncated: 0.2, Unaccounted: 0.25}
	got := QualityOf(m.Snapshot())
	if diff := cmp.Diff(want, got, cmpopts.EquateApprox(0, 1e-3)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The best file of a build is a second name of a file, and stays when the file goes.
func TestBest(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir(), Keep: 24 * time.Hour})
	first := fileAt(t, s, web, day, profile(10)) // not settled, and the first one
	second := fileAt(t, s, web, day.Add(time.Hour), settled(1000))
	fileAt(t, s, web, day.Add(2*time.Hour), settled(10))
	fileAt(t, s, web, day.Add(3*time.Hour), profile(5000))
	best := func() Entry {
		return only(t, slices.DeleteFunc(s.Reader().List(Filter{}).Entries, func(e Entry) bool { return e.Kind != KindBest }))
	}
	if b := best(); b.From != day.Add(time.Hour) || b.Quality == nil || b.Quality.Samples != 1000 {
		t.Errorf("%+v", b)
	}
	for _, e := range s.Reader().List(Filter{}).Entries {
		if want := e.Kind == KindBest || e.Path == second; e.Best != want {
			t.Errorf("%s: best %v", e.Path, e.Best)
		}
	}
	fileAt(t, s, web, day.Add(100*time.Hour), profile(1))
	s.Retain(day.Add(200 * time.Hour)) // compared with the latest file
	for _, gone := range []string{first, second} {
		if _, err := os.Stat(gone); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", gone, err)
		}
	}
	m, err := s.Reader().Read(best())
	if err != nil || m.Snapshot().Total().Samples != 1000 {
		t.Errorf("error %v", err)
	}
}

// paths returns what a store has, as short texts.
func listed(s *Store) (names []string) {
	for _, e := range s.Reader().List(Filter{}).Entries {
		names = append(names, fmt.Sprintf("%s/%s %s %d", e.Target, e.Build, e.Kind, int(e.From.Sub(day)/time.Hour)))
	}
	return names
}

// The oldest files go until the rest fits. Best files of the last two builds stay, whatever happens.
func TestRetainBytes(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	for i, build := range []string{"a", "b", "c"} {
		for j := range 2 {
			fileAt(t, s, Key{Target: "web", Build: build}, day.Add(time.Duration(10*i+j)*time.Hour), settled(100))
		}
	}
	size := s.Reader().List(Filter{}).Entries[0].Size
	s.SetBounds(0, 0, 4*size+size/2)
	s.Retain(day.AddDate(1, 0, 0))
	// 6 files of 3 builds, each best is the second: the first two go.
	want := []string{"web/b period 10", "web/b best 11", "web/b period 11", "web/c period 20", "web/c best 21", "web/c period 21"}
	if diff := cmp.Diff(want, listed(s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	s.SetBounds(0, 0, 1)
	s.Retain(day.AddDate(1, 0, 0))
	entries := s.Reader().List(Filter{}).Entries
	if len(entries) != 2 || entries[0].Kind != KindBest || entries[1].Kind != KindBest || entries[0].Build != "b" {
		t.Errorf("%v", listed(s))
	}
	if _, err := os.Stat(filepath.Join(s.Dir, targetsDir, "web", "a")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a build without files: %v", err)
	}
}

// TestRetainAfterAKill: what kills have left of files goes, wherever it lies and whether a later file follows there,
// but not what another run writes now.
func TestRetainAfterAKill(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	fileAt(t, s, web, day, profile(1))
	build := path.Dir(web.dir())
	now := path.Join(web.dir(), ".2"+tempType)
	left := []string{
		path.Join(build, tempName), path.Join(web.dir(), tempName), path.Join(web.dir(), ".1"+tempType),
		path.Join(path.Dir(build), "other", path.Base(web.dir()), tempName),
	}
	long := time.Now().Add(-2 * tempAge)
	for _, name := range append(left, now) {
		name = filepath.Join(s.Dir, name)
		for _, err := range []error{os.MkdirAll(filepath.Dir(name), 0o750), os.WriteFile(name, nil, 0o600)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Chtimes(filepath.Join(s.Dir, left[2]), long, long); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(s.Dir, path.Dir(build), "third", path.Base(web.dir()), tempName) // nobody wrote it here
	if err := os.MkdirAll(folder, 0o750); err != nil {
		t.Fatal(err)
	}
	s.Retain(day)
	if _, err := os.Stat(folder); err != nil {
		t.Error(err)
	}
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(s.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir, now)); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(s.Dir, path.Dir(build), "other")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of a build without files: %v", err)
	}
	if len(listed(s)) != 2 {
		t.Errorf("%v", listed(s))
	}
}

// A clock that jumps ahead makes no file old.
func TestRetainByAWrongClock(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir(), Keep: time.Hour})
	fileAt(t, s, web, day, profile(1))
	s.Retain(day.AddDate(50, 0, 0))
	if len(listed(s)) != 2 {
		t.Errorf("%v", listed(s))
	}
}

// Time goes on as the process runs, never beyond the wall clock.
func TestRetention(t *testing.T) {
	t.Parallel()
	var r retention
	for _, c := range []struct {
		wall, ran, latest, want time.Duration
	}{
		{100, 0, 50, 50}, {200, 10, 60, 60}, {55, 20, 60, 55}, {300, 30, 60, 65},
	} {
		if got := r.now(day.Add(c.wall), c.ran, day.Add(c.latest)); got != day.Add(c.want) {
			t.Errorf("%+v: %v", c, got.Sub(day))
		}
	}
}

// Files of a day that is over for a week become one, with all that they had; younger ones stay.
func TestCompact(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	for hour := range 30 {
		m := ccmap.New(ccmap.Options{})
		m.Merge(profile(int64(hour)))
		m.Meta().Interval = []ccmap.IntervalChange{{Interval: time.Duration(1 + hour%2), Reason: "x"}}
		m.Meta().Start, m.Meta().Duration = day.Add(time.Duration(hour)*time.Hour), time.Hour
		fileAt(t, s, web, day.Add(time.Duration(hour)*time.Hour), m.Snapshot())
	}
	done, err := s.Compact(t.Context(), day.Add((24+7*24)*time.Hour))
	if diff := cmp.Diff(Compacted{Days: 1, Parts: 24}, done); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	var entries []Entry
	for _, e := range s.Reader().List(Filter{}).Entries {
		if e.Kind == KindPeriod {
			entries = append(entries, e)
		}
	}
	if len(entries) != 7 || entries[0].Level != LevelDay || entries[0].From != day || entries[0].To != day.Add(24*time.Hour) {
		t.Fatalf("%+v", entries)
	}
	m, err := s.Reader().Read(entries[0])
	if err != nil {
		t.Fatal(err)
	}
	if got := m.Snapshot().Total().Samples; got != 23*24/2 || m.Meta().Duration != 24*time.Hour || len(m.Meta().Interval) > mostNotes {
		t.Errorf("%d samples in %v, %d intervals", got, m.Meta().Duration, len(m.Meta().Interval))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Compact(ctx, day.AddDate(1, 0, 0)); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// Periods of minutes become hours when these are over for a day, and the hours become a day after a week. The sum stays
// the same all the time.
func TestHours(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	const each = 15 * time.Minute
	for i := range 4 * 24 {
		m := ccmap.New(ccmap.Options{})
		m.Merge(profile(1))
		from := day.Add(time.Duration(i) * each)
		if _, err := s.File(web, from, from.Add(each), m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		after time.Duration // the first period began
		want  Compacted
		files int
	}{
		{24 * time.Hour, Compacted{}, 96},
		{36 * time.Hour, Compacted{Hours: 12, Parts: 48}, 60},
		{48 * time.Hour, Compacted{Hours: 12, Parts: 48}, 24},
		{7 * 24 * time.Hour, Compacted{}, 24},
		{8 * 24 * time.Hour, Compacted{Days: 1, Parts: 24}, 1},
	} {
		done, err := s.Compact(t.Context(), day.Add(c.after))
		if done != c.want || err != nil {
			t.Errorf("after %v: %+v, %v; want %+v", c.after, done, err, c.want)
		}
		files, sum := 0, int64(0)
		for _, e := range s.Reader().List(Filter{}).Entries {
			if e.Kind != KindPeriod {
				continue
			}
			m, err := s.Reader().Read(e)
			if err != nil {
				t.Fatal(err)
			}
			files, sum = files+1, sum+m.Snapshot().Total().Samples
		}
		if files != c.files || sum != 96 {
			t.Errorf("after %v: %d files with %d samples, want %d with 96", c.after, files, sum, c.files)
		}
	}
}

// A merge whose process was killed after the new file appeared counts once, for readers and for the next process.
func TestMergeThatWasCut(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	var plan merging
	for hour := range 2 {
		path := fileAt(t, s, web, day.Add(time.Duration(hour)*time.Hour), profile(5))
		part, _ := filepath.Rel(s.Dir, path)
		plan.Parts = append(plan.Parts, part)
	}
	n := fileName{from: day, to: day.Add(2 * time.Hour), level: LevelDay, owner: web.Owner}
	plan.Path = filepath.Join(filepath.Dir(plan.Parts[0]), n.String())
	text := fmt.Sprintf(`{"Path":%q,"Parts":[%q,%q]}`, plan.Path, plan.Parts[0], plan.Parts[1])
	if err := os.WriteFile(filepath.Join(s.Dir, mergeName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := len(listed(s)); got != 3 { // and the best
		t.Errorf("%d files before the merge is there", got)
	}
	if err := export.WriteFile(filepath.Join(s.Dir, plan.Path), profile(10)); err != nil {
		t.Fatal(err)
	}
	if got := len(listed(s)); got != 2 {
		t.Errorf("%d files when the merge is there", got)
	}
	s.Close()
	s = mustOpen(t, s.Options)
	for _, part := range plan.Parts {
		if _, err := os.Stat(filepath.Join(s.Dir, part)); !errors.Is(err, fs.ErrNotExist) {
			t.Error(part, err)
		}
	}
	if got := len(listed(s)); got != 2 {
		t.Errorf("%d files afterwards", got)
	}
}

// A description that grows with each merge stays bounded, with its first and last change.
func TestBoundMeta(t *testing.T) {
	t.Parallel()
	var m ccmap.Meta
	for i := range 1000 {
		m.Interval = append(m.Interval, ccmap.IntervalChange{At: time.Duration(i), Interval: time.Duration(i / 2)})
		m.Comments = append(m.Comments, fmt.Sprint(i))
	}
	BoundMeta(&m)
	if len(m.Interval) != mostNotes || m.Interval[0].At != 0 || m.Interval[mostNotes-1].At != 998 || len(m.Comments) != mostNotes {
		t.Errorf("%+v", m)
	}
	short := ccmap.Meta{Interval: []ccmap.IntervalChange{{At: 1, Interval: 5}, {At: 2, Interval: 5}, {At: 3, Interval: 6}}}
	BoundMeta(&short)
	if len(short.Interval) != 2 || short.Interval[1].At != 3 {
		t.Errorf("%+v", short)
	}
}

// References mean what the table of Resolve says.
func TestResolve(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	old, now := Key{Target: "web", Build: "aaaa1111"}, Key{Target: "web", Build: "aabb2222"}
	fileAt(t, s, old, day, settled(100))
	fileAt(t, s, old, day.Add(time.Hour), profile(10))
	fileAt(t, s, now, day.Add(24*time.Hour), settled(200))
	fileAt(t, s, now, day.Add(25*time.Hour), profile(20))
	fileAt(t, s, Key{Target: "web", Build: "x", Unit: ccmap.NewUnit("alloc_space", "bytes")}, day, profile(7))
	fileAt(t, s, Key{Target: "db", Build: "x"}, day, profile(7))
	if err := s.Append(Frame{Stream: s.NewStream(now), From: day.Add(26 * time.Hour), To: day.Add(27 * time.Hour), Delta: profile(3)}); err != nil {
		t.Fatal(err)
	}
	wall := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) // a Saturday
	r := s.Reader()
	for ref, want := range map[string][]int64{
		"best:web":                     {200},
		"best:web@aaaa":                {100},
		"recent:web":                   {3},
		"recent:web@aaaa1111ffff":      nil,
		"recent:web@aaaa1111":          {10},
		"build:web":                    {200, 20, 3},
		"build:web@aaaa":               {100, 10},
		"period:web":                   {20},
		"period:web@2026-11-20":        {100, 10},
		"period:web@2026-11-20T01":     {10},
		"period:web@2026-11-20T01:30":  {10},
		"period:web@yesterday":         {100, 10},
		"period:web@today":             {200, 20},
		"period:web@this-week":         {100, 10, 200, 20},
		"period:web@last-week":         nil,
		"period:web@2026-11-21T00:00Z": nil,
		"period:db":                    {7},
		"best:no":                      nil,
	} {
		parsed, err := ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		entries, err := r.Resolve(parsed, Filter{}, wall)
		if (want == nil) != (err != nil) {
			t.Errorf("%s: %d entries, error %v", ref, len(entries), err)
		}
		var got []int64
		for _, e := range entries {
			m, err := r.Read(e)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, m.Snapshot().Total().Samples)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
	}
	entries, err := r.Resolve(Reference{Kind: "recent", Name: "web", Event: "alloc_space"}, Filter{}, wall)
	if err != nil || only(t, entries).Event != "alloc_space" {
		t.Errorf("%v", err)
	}
}

// An error names what there is.
func TestResolveCandidates(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	for i, build := range []string{"aaaa1111", "aabb2222"} {
		fileAt(t, s, Key{Target: "web", Build: build}, day.Add(time.Duration(i)*time.Hour), profile(1))
	}
	for ref, want := range map[string][]string{
		"best:wob":               {"web"},
		"build:web@cc":           {"aabb2222", "aaaa1111"},
		"build:web@aa":           {"aabb2222", "aaaa1111"},
		"period:web@2026-12-01":  {"2026-11-20T01:00", "2026-11-20T00:00"},
		"period:web@three o'clo": {"today", "yesterday", "this-week", "last-week"},
	} {
		parsed, err := ParseReference(ref)
		if err != nil {
			t.Fatal(err)
		}
		_, err = s.Reader().Resolve(parsed, Filter{}, day)
		told := advice.Coded(err)
		if told == nil || !cmp.Equal(told.Candidates, want) {
			t.Errorf("%s: %v, %+v", ref, err, told)
		}
	}
	for _, bad := range []string{"", "web", "worst:web", "best:", "best:../x", "best:.x"} {
		if _, err := ParseReference(bad); advice.CodeOf(err) != advice.CodeUsage {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// Other users do not see profiles of which the filter says so, in files and in the log.
func TestVisible(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	own := process.Owner{UID: 5, GID: 5, Traceable: true}
	for _, o := range []process.Owner{own, {UID: 6, GID: 6, Traceable: true}, {UID: 5, GID: 5}, process.Unowned} {
		k := Key{Target: "web", Build: fmt.Sprint(o), Owner: o}
		fileAt(t, s, k, day, settled(5))
		if err := s.Append(Frame{Stream: s.NewStream(k), From: day, To: day, Delta: profile(1)}); err != nil {
			t.Fatal(err)
		}
	}
	l := s.Reader().List(Filter{Running: true, Visible: func(o process.Owner) bool { return o == own }})
	if len(l.Entries) != 3 {
		t.Errorf("%d entries", len(l.Entries))
	}
	for _, e := range l.Entries {
		if e.Owner != own || e.Path != "" && !strings.Contains(e.Path, ".u5g5.") {
			t.Errorf("%+v", e)
		}
	}
	if _, err := s.Reader().Resolve(Reference{Kind: "best", Name: "web"}, Filter{Visible: func(process.Owner) bool { return false }}, day); advice.CodeOf(err) != advice.CodeNoTarget {
		t.Error(err)
	}
}

// Whole frames replace what is before them, and the store drops the segments; so do files and Drop.
func TestSegmentsAreDropped(t *testing.T) {
	t.Parallel()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	streams := []*Stream{s.NewStream(web), s.NewStream(Key{Target: "db"})}
	put := func(whole bool, n int64, streams ...*Stream) {
		t.Helper()
		var frames []Frame
		for _, stream := range streams {
			frames = append(frames, Frame{Stream: stream, From: day, To: day, Delta: profile(n), Whole: whole})
		}
		s.mu.Lock()
		s.journal.Roll()
		s.mu.Unlock()
		if err := s.Append(frames...); err != nil {
			t.Fatal(err)
		}
	}
	segments := func(want int) {
		t.Helper()
		entries, err := os.ReadDir(filepath.Join(s.Dir, logDir))
		if err != nil || len(entries) != want {
			t.Errorf("%d segments, want %d, error %v", len(entries), want, err)
		}
	}
	put(false, 1, streams...)
	put(false, 1, streams...)
	segments(2)
	put(true, 2, streams[0])
	segments(3)
	put(true, 2, streams[1])
	segments(2)
	if err := s.Drop(streams[0]); err != nil {
		t.Fatal(err)
	}
	segments(1)
	put(false, 1, streams[1])
	segments(2)
	if _, err := s.File(streams[1].Key(), day, day.Add(time.Hour), profile(3), streams[1]); err != nil {
		t.Fatal(err)
	}
	segments(1)
	s.Close()
	s = mustOpen(t, s.Options)
	if r := s.Recovered(); len(r) > 0 {
		t.Errorf("%+v", r)
	}
}

// What was recovered goes on in one stream: a whole replaces all of it, and a file has all of it.
func TestRecoveredStreams(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*Store, Recovered) error{
		"file": func(s *Store, r Recovered) error {
			_, err := s.File(r.Key, r.From, r.To, r.Map.Snapshot(), r.Stream)
			return err
		},
		"drop": func(s *Store, r Recovered) error { return s.Drop(r.Stream) },
		"whole": func(s *Store, r Recovered) error {
			return s.Append(Frame{Stream: r.Stream, From: r.From, To: r.To, Delta: r.Map.Snapshot(), Whole: true})
		},
		"delta": func(s *Store, r Recovered) error {
			return s.Append(Frame{Stream: r.Stream, From: r.From, To: r.To, Delta: profile(0)})
		},
	} {
		dir := t.TempDir()
		for run := range 3 {
			s := mustOpen(t, Options{Dir: dir})
			stream := s.NewStream(web)
			for _, r := range s.Recovered() {
				stream = r.Stream
				if got := r.Map.Snapshot().Total().Samples; got != int64(run) || r.From != day || r.To != day.Add(time.Hour) {
					t.Errorf("%s: %d samples, want %d; %v to %v", name, got, run, r.From, r.To)
				}
			}
			if err := s.Append(Frame{Stream: stream, From: day, To: day.Add(time.Hour), Delta: profile(1)}); err != nil {
				t.Fatal(err)
			}
			s.Close()
		}
		s := mustOpen(t, Options{Dir: dir})
		if err := end(s, only(t, s.Recovered())); err != nil {
			t.Fatal(err)
		}
		s.Close()
		s = mustOpen(t, Options{Dir: dir})
		total := int64(0)
		for _, r := range s.Recovered() {
			total += r.Map.Snapshot().Total().Samples
		}
		if want := map[string]int64{"whole": 3, "delta": 3}[name]; total != want {
			t.Errorf("%s: %d samples in the log, want %d", name, total, want)
		}
	}
}
