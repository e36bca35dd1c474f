package store

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/safepath"
	"github.com/ccmapd/ccmapd/internal/store/internal/cutdisk"
	"github.com/ccmapd/ccmapd/internal/store/internal/disk"
	"github.com/ccmapd/ccmapd/tuning"
)

var lone = Key{Target: "compile", Build: "0123456789abcdef"}

// tuned returns a settled profile whose tuner came to an interval.
func tuned(samples int64, to time.Duration) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	if err := m.Merge(settled(samples)); err != nil {
		panic(err)
	}
	m.Meta().Settled = ccmap.Settled{Edges: 99, Samples: samples}
	m.Meta().Start, m.Meta().Duration = day, time.Hour
	m.Meta().Interval = []ccmap.IntervalChange{{Interval: 10 * time.Millisecond, Reason: "initial"}, {At: time.Minute, Interval: to, Reason: "r: interval 10ms → " + to.String()}}
	return m.Snapshot()
}

func listOf(t *testing.T, dir string) []Entry {
	t.Helper()
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	return r.List(Filter{}).Entries
}

// TestAddAtTheSameTime: many runs that end at once lose nothing, and replace nothing. All are in the index, and the
// best of them is the best.
func TestAddAtTheSameTime(t *testing.T) {
	t.Parallel()
	const runs = 24
	dir := filepath.Join(t.TempDir(), "state", "ccmapd")
	var all sync.WaitGroup
	for i := range runs {
		all.Go(func() {
			if _, err := Add(Options{Dir: dir}, lone, day, day.Add(time.Hour), settled(int64(1000+1000*i))); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	counts := make(map[int64]bool)
	for _, e := range listOf(t, dir) {
		switch {
		case e.Quality == nil:
			t.Errorf("%s is not in the index", e.Name)
		case e.Kind == KindBest && e.Quality.Samples != 1000*runs:
			t.Errorf("the best has %d samples", e.Quality.Samples)
		case e.Kind == KindPeriod:
			counts[e.Quality.Samples] = true
		}
	}
	if len(counts) != runs {
		t.Errorf("%d of %d profiles are there", len(counts), runs)
	}
	names, err := os.ReadDir(filepath.Join(dir, lone.dir()))
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n.Name(), ".") {
			t.Errorf("%s is left", n.Name())
		}
	}
}

// TestAddBesideADaemon: a process that keeps the lock keeps no run from filing, and takes in what was filed meanwhile.
func TestAddBesideADaemon(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := mustOpen(t, Options{Dir: dir})
	path, err := Add(Options{Dir: dir}, lone, day, day.Add(time.Hour), settled(500))
	if err != nil {
		t.Fatal(err)
	}
	if e := only(t, listOf(t, dir)); e.Path != path || e.Quality != nil {
		t.Errorf("%+v", e)
	}
	s.Retain(day.Add(2 * time.Hour))
	entries := listOf(t, dir)
	if len(entries) != 2 || !entries[0].Best || !entries[1].Best || entries[0].Quality == nil {
		t.Errorf("%+v", entries)
	}
}

// TestTakeIn: files that were filed without the lock take their places by what they are worth, in any order.
func TestTakeIn(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		first, second int64 // samples, by time
		best          int64
	}{
		"about equal": {1000, 1001, 1001},
		"the earlier": {5000, 1000, 5000},
		"the later":   {1000, 5000, 5000},
	} {
		for _, laterFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", the later one first ", laterFirst), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				add := func(samples int64, from time.Time) {
					if _, err := Add(Options{Dir: dir}, lone, from, from.Add(time.Hour), at(samples, from)); err != nil {
						t.Fatal(err)
					}
				}
				first, second := func() { add(c.first, day) }, func() { add(c.second, day.Add(2*time.Hour)) }
				if laterFirst {
					first, second = second, first
				}
				lock, err := lockDir(dir)
				if err == nil {
					err = newAdding(Options{Dir: dir}, disk.At(dir)).checkFormat()
				}
				if err != nil {
					t.Fatal(err)
				}
				first() // without the index
				lock.Close()
				second()
				if err := os.Remove(dir + "/index"); err != nil {
					t.Fatal(err)
				}
				mustOpen(t, Options{Dir: dir}).Retain(day)
				for _, e := range listOf(t, dir) {
					if e.Kind == KindBest && e.Quality.Samples != c.best {
						t.Errorf("best has %d samples", e.Quality.Samples)
					}
				}
			})
		}
	}
}

func at(samples int64, start time.Time) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	if err := m.Merge(settled(samples)); err != nil {
		panic(err)
	}
	m.Meta().Settled = ccmap.Settled{Edges: 99, Samples: samples}
	m.Meta().Start, m.Meta().Duration = start, time.Hour
	return m.Snapshot()
}

// TestAddAndPowerCuts: a file that was filed outlives a power cut, whole. One that was not is there whole, or not at
// all.
func TestAddAndPowerCuts(t *testing.T) {
	t.Parallel()
	for seed := range *cuts {
		rnd := rand.New(rand.NewPCG(uint64(seed), 3))
		d := cutdisk.New(uint64(seed), 1+rnd.IntN(60))
		filed, tried := make(map[int64]bool), int64(0)
		for range 8 { // one cut after another
			for d.Left() > 0 {
				tried++
				a, whole := newAdding(Options{}, d), settled(tried)
				from := day.Add(time.Duration(tried) * time.Second)
				name, err := a.place(lone, fileName{from: from, to: from.Add(time.Second)}, whole)
				if err != nil {
					continue
				}
				filed[tried] = true
				a.enter(lone, name, whole)
			}
			d = d.Cut(1 << 40)
			there := make(map[int64]bool)
			for _, f := range walk(d).files {
				m, err := readMap(d, f.path, export.ReadOptions{})
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
				if n := m.Snapshot().Total().Samples; !f.best {
					there[n] = true
				}
			}
			for n := range filed {
				if !there[n] {
					t.Fatalf("seed %d: file %d of %d is lost", seed, n, tried)
				}
			}
			d = d.Cut(1 + rnd.IntN(60))
		}
	}
}

// TestAddKeepsBounds: each file that is added removes those that are too old or too many.
func TestAddKeepsBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	start := time.Now().Add(-100 * time.Hour)
	for i := range 3 {
		from := start.Add(time.Duration(i) * 48 * time.Hour)
		if _, err := Add(Options{Dir: dir, Keep: 60 * time.Hour}, lone, from, from.Add(time.Hour), at(1000, from)); err != nil {
			t.Fatal(err)
		}
	}
	files := slices.DeleteFunc(listOf(t, dir), func(e Entry) bool { return e.Kind == KindBest })
	if len(files) != 2 || files[0].From.Before(start.Add(47*time.Hour)) {
		t.Errorf("%+v", files)
	}
}

// TestAddRefused: what cannot be filed is an error that says what to do, and leaves nothing.
func TestAddRefused(t *testing.T) {
	t.Parallel()
	newer := t.TempDir()
	shared := t.TempDir()
	link := filepath.Join(t.TempDir(), "ccmapd")
	for _, err := range []error{
		os.WriteFile(newer+"/format", []byte("ccmapd store 2\n"), 0o600), os.Chmod(shared, 0o777), os.Symlink(shared, link),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, want := range map[string]error{newer: ErrNewer, shared: safepath.ErrOthers, link: safepath.ErrOthers} {
		if _, err := Add(Options{Dir: dir}, lone, day, day, settled(1)); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", dir, err, want)
		}
		if _, err := os.Stat(filepath.Join(dir, targetsDir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, name := range []string{"", "../x", ".hidden", "a/b"} {
		if _, err := Add(Options{Dir: t.TempDir()}, Key{Target: name, Build: "b"}, day, day, settled(1)); err == nil {
			t.Errorf("filed as %q", name)
		}
	}
}

// TestAddToAFullDisk: nothing is left of a file that the disk has no room for.
func TestAddToAFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	dir := t.TempDir()
	if err := unix.Mount("none", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Skip(err)
	}
	defer unix.Unmount(dir, unix.MNT_DETACH)
	if _, err := Add(Options{Dir: dir}, lone, day, day.Add(time.Hour), settled(1)); err != nil {
		t.Fatal(err)
	}
	fill, err := os.Create(dir + "/fill")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = fill.Write(make([]byte, 4096))
	}
	fill.Close()
	before := listOf(t, dir)
	if _, err := Add(Options{Dir: dir}, lone, day, day.Add(time.Hour), settled(2)); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if after := listOf(t, dir); len(after) != len(before) {
		t.Errorf("%d entries, were %d", len(after), len(before))
	}
	if err := os.Remove(dir + "/fill"); err != nil {
		t.Fatal(err)
	}
	if _, err := Add(Options{Dir: dir}, lone, day, day.Add(time.Hour), settled(2)); err != nil {
		t.Errorf("with room again: %v", err)
	}
}

// TestAddAfterAKill: what a kill has left of a file goes with a later one, but not what another run writes now.
func TestAddAfterAKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := filepath.Join(dir, lone.dir())
	if err := os.MkdirAll(at, 0o750); err != nil {
		t.Fatal(err)
	}
	old, now := filepath.Join(at, ".1"+tempType), filepath.Join(at, ".2"+tempType)
	long := time.Now().Add(-2 * tempAge)
	for _, err := range []error{os.WriteFile(old, nil, 0o600), os.WriteFile(now, nil, 0o600), os.Chtimes(old, long, long)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Add(Options{Dir: dir}, lone, day, day, settled(1)); err != nil {
		t.Fatal(err)
	}
	_, err := os.Stat(old)
	_, err2 := os.Stat(now)
	if !errors.Is(err, fs.ErrNotExist) || err2 != nil {
		t.Errorf("old: %v, new: %v", err, err2)
	}
}

// TestPast: the past of a build is what its files tell by their names and the index, the last tuner's interval first.
func TestPast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i, to := range []time.Duration{4 * time.Millisecond, 2 * time.Millisecond} {
		from := day.Add(time.Duration(i) * time.Hour)
		if _, err := Add(Options{Dir: dir}, lone, from, from.Add(time.Minute), tuned(100, to)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Add(Options{Dir: dir}, lone, day.Add(3*time.Hour), day.Add(4*time.Hour), settled(100)); err != nil { // decided nothing
		t.Fatal(err)
	}
	r, err := NewReader(dir)
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Past(lone); p != (Past{3, day, 2 * time.Millisecond}) {
		t.Errorf("%+v", p)
	}
	other, unknown := lone, lone
	other.Build, unknown.Build = "fedcba9876543210", ""
	for _, k := range []Key{other, unknown, {Target: "../compile", Build: lone.Build}, {Target: lone.Target, Build: lone.Build, Owner: web.Owner}} {
		if p := r.Past(k); p != (Past{}) {
			t.Errorf("%+v: %+v", k, p)
		}
	}
	if err := os.WriteFile(dir+"/index", []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if p := r.Past(lone); p != (Past{3, day, 0}) {
		t.Errorf("without an index: %+v", p)
	}
}

func TestSettledInterval(t *testing.T) {
	t.Parallel()
	initial := ccmap.IntervalChange{Interval: 10, Reason: "initial"}
	decided := ccmap.IntervalChange{Interval: 5, Reason: "repetitions 0.1 % of 900 known < 1 %: interval 10ns → 5ns"}
	slowed := ccmap.IntervalChange{Interval: 20, Reason: "settled to 99.0 % ≥ 98 %: interval 5ns → 20ns"}
	resumed := ccmap.IntervalChange{Interval: 7, Reason: tuning.Resumed}
	for want, changes := range map[time.Duration][]ccmap.IntervalChange{
		0: {initial}, 5: {initial, decided, slowed}, 7: {resumed, slowed}, 20: {},
	} {
		if want == 20 {
			want = 0
		}
		if got := settledInterval(changes); got != want {
			t.Errorf("%v: %v, want %v", changes, got, want)
		}
	}
}

// methodPoints are the points of one method in one profile, as a test draws them.
type methodPoints struct {
	calls, other int64
	body         uint64
}

func pointsMap(name func(i int) string, methods []methodPoints) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for i, p := range methods {
		if p.calls+p.other == 0 {
			continue
		}
		id := m.Names().Intern(ccmap.Method{Name: name(i), Body: p.body})
		to := m.Names().Intern(ccmap.Method{Name: "main.callee"})
		m.Add(m.Child(0, ccmap.NoOffset, id), ccmap.Counters{Samples: 1})
		point := ccmap.Point{Origin: ccmap.OriginBurst, Kind: ccmap.PointCall, Method: id, Offset: 3, End: 3, Count: p.calls + p.other, Other: p.other, Nulls: ccmap.NullsUnknown}
		if p.calls > 0 {
			point.Values = []ccmap.PointValue{{Value: uint64(to), Count: p.calls}}
		}
		m.AddPoint(point)
	}
	return m.Snapshot()
}

// TestChoosePoints: the points of a method are those of one profile, whole: of the recent one if it knows as much, and
// in any case if the code has changed. No context comes along.
func TestChoosePoints(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		draw := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) methodPoints {
			return methodPoints{rapid.Int64Range(0, 1000).Draw(t, "calls"), rapid.Int64Range(0, 50).Draw(t, "other"), rapid.Uint64Range(0, 2).Draw(t, "body")}
		}), 0, 8)
		best, recent := draw.Draw(t, "best"), draw.Draw(t, "recent")
		name := func(i int) string { return fmt.Sprint("main.f", i) }
		b, r := pointsMap(name, best), pointsMap(name, recent)
		c := ChoosePoints(b, r)
		s := c.Map.Snapshot()
		if s.Len() != 1 || !s.Total().IsZero() {
			t.Fatalf("%d contexts of %+v", s.Len()-1, s.Total())
		}
		got := make(map[string]methodPoints)
		for _, p := range s.Points() {
			m := s.Names().At(p.Method)
			calls := int64(0)
			for _, v := range p.Values {
				calls += v.Count
				if n := s.Names().At(ccmap.MethodID(v.Value)).Name; n != "main.callee" {
					t.Fatalf("a call of %s reaches %q", m.Name, n)
				}
			}
			if _, twice := got[m.Name]; twice {
				t.Fatalf("%s has two points", m.Name)
			}
			got[m.Name] = methodPoints{calls, p.Other, 0}
		}
		for i := range max(len(best), len(recent)) {
			var was, is methodPoints
			if i < len(best) {
				was = best[i]
			}
			if i < len(recent) {
				is = recent[i]
			}
			want, n := wantedPoints(was, is), name(i)
			if g := got[n]; g.calls != want.calls || g.other != want.other {
				t.Fatalf("%s: %+v of best %+v and recent %+v", n, g, was, is)
			}
		}
	})
}

// wantedPoints is the rule of ChoosePoints for one method, in the words of the design.
func wantedPoints(best, recent methodPoints) methodPoints {
	b, r := best.calls+best.other, recent.calls+recent.other
	switch {
	case r == 0:
		return best
	case b == 0:
		return recent
	case best.body != 0 && recent.body != 0 && best.body != recent.body:
		return recent
	}
	enough := r >= b || (b-r)*(b-r) <= 4*b // within 2√b
	if enough && float64(recent.other)/float64(r) <= float64(best.other)/float64(b)+0.01 {
		return recent
	}
	return best
}

// TestChoosePointsOfOne: of two equal profiles all points are kept, and a profile without points changes nothing.
func TestChoosePointsOfOne(t *testing.T) {
	t.Parallel()
	name := func(i int) string { return fmt.Sprint("main.f", i) }
	s, none := pointsMap(name, []methodPoints{{100, 3, 1}, {7, 0, 0}}), ccmap.New(ccmap.Options{}).Snapshot()
	for _, c := range []struct {
		best, recent *ccmap.Snapshot
		want         Chosen
	}{{s, s, Chosen{Recent: 2}}, {s, none, Chosen{Best: 2}}, {none, s, Chosen{Recent: 2}}, {none, none, Chosen{}}} {
		got := ChoosePoints(c.best, c.recent)
		if got.Best != c.want.Best || got.Recent != c.want.Recent || len(got.Map.Snapshot().Points()) != got.Best+got.Recent {
			t.Errorf("%d of the best, %d of the recent, %d points", got.Best, got.Recent, len(got.Map.Snapshot().Points()))
		}
	}
}
