package daemon

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// filing is a configuration that keeps files of periods of a minute.
func filing(dir string) *config.Config {
	return webConfig(func(c *config.Config) {
		c.Store.Files, c.Store.Dir = true, dir
		c.Targets[0].Rotate = time.Minute
	})
}

// filesIn returns the files of periods, the oldest first, and their profiles.
func filesIn(t *testing.T, dir string) (names []string, all []*ccmap.Snapshot) {
	t.Helper()
	files, err := periodFiles(os.DirFS(filepath.Join(dir, targetsDir)))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		name := filepath.Join(targetsDir, f.path)
		m, _, err := export.ReadFile(filepath.Join(dir, name), export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		names, all = append(names, name), append(all, m.Snapshot())
	}
	return names, all
}

func sumOf(all []*ccmap.Snapshot) (sum ccmap.Counters) {
	for _, s := range all {
		sum = sum.Add(s.Total())
	}
	return sum
}

// TestPeriods: files of periods have all samples, each once, whatever ends a period: the clock, a
// process, another build, the daemon.
func TestPeriods(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var live, old ccmap.Counters
	inDaemon(t, filing(dir), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(9))
		first := h.start(web(10))
		time.Sleep(5 * time.Minute)
		names, all := filesIn(t, dir)
		if n := len(names); n < 4 || n > 6 || !strings.HasPrefix(names[0], "targets/web/build_1/") {
			t.Errorf("files of five minutes: %q", names)
		}
		if first, second := all[0].Meta(), all[1].Meta(); second.Start.Before(first.Start.Add(30*time.Second)) || second.Duration > 4*time.Minute {
			t.Errorf("the first period %v of %v, the second %v of %v", first.Start, first.Duration, second.Start, second.Duration)
		}
		h.kill(first)
		time.Sleep(time.Second)
		s, err := d.Snapshot(t.Context(), "web", 0)
		if err != nil {
			t.Fatal(err)
		}
		old = s.Total()
		p := web(11)
		p.build, p.file = "build/2", process.FileID{Inode: 2}
		h.start(p)
		time.Sleep(30 * time.Second)
		if s, err = d.Snapshot(t.Context(), "web", 11); err != nil {
			t.Fatal(err)
		}
		live = s.Total()
		if err := d.Rotate(t.Context(), "web"); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
	})
	names, all := filesIn(t, dir)
	last := slices.IndexFunc(names, func(n string) bool { return strings.Contains(n, "/build_2/") })
	if last < 0 {
		t.Fatalf("no file of the second build: %q", names)
	}
	sum := sumOf(all)
	if sum.Samples < old.Samples+live.Samples || sum.Time != sum.Samples*int64(10*time.Millisecond) {
		t.Errorf("files have %+v, the maps had %+v and %+v", sum, old, live)
	}
	// A process lives 5:32 and another 5:00 and 0:32: no sample is in two files.
	if most := int64(2*5*60+2*35) * 100; sum.Samples > most {
		t.Errorf("files have %d samples, and there were at most %d", sum.Samples, most)
	}
}

// TestPeriodAfterAPause: changes of the interval count from the start of the period, although the
// map's duration has no pauses. Here a session of an hour, 5 h later another, and after an hour a period.
func TestPeriodAfterAPause(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	m := ccmap.New(ccmap.Options{})
	meta := m.Meta()
	meta.Start, meta.Duration = noon, 2*time.Hour
	meta.Interval = []ccmap.IntervalChange{{Interval: 10}, {At: 3 * time.Hour, Interval: 20}}
	s := unfiled{slot: &slot{filed: m.Snapshot(), began: noon.Add(7 * time.Hour)}}
	meta.Duration += time.Hour
	meta.Interval = append(meta.Interval, ccmap.IntervalChange{At: 7*time.Hour + 30*time.Minute, Interval: 5})
	s.read = func(context.Context) (*ccmap.Snapshot, error) { return m.Snapshot(), nil }
	period, _, err := s.delta(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := ccmap.Meta{
		Start: s.began, Duration: time.Hour,
		Interval: []ccmap.IntervalChange{{Interval: 20}, {At: 30 * time.Minute, Interval: 5}},
	}
	if diff := cmp.Diff(want, period.Meta()); diff != "" {
		t.Errorf("description (-want +got):\n%s", diff)
	}
}

// TestUnwritablePeriod: a period that cannot be written is part of the next one.
func TestUnwritablePeriod(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	obstacle := filepath.Join(dir, targetsDir)
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inDaemon(t, filing(dir), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := h.start(web(10))
		time.Sleep(3 * time.Minute)
		if err := d.Rotate(t.Context(), "web"); err == nil {
			t.Error("no error without a directory")
		}
		if n := mustTarget(t, d, "web").Counters.Unfiled; n == 0 {
			t.Error("no error is counted")
		}
		h.kill(first)
		time.Sleep(time.Second)
		s, err := d.Snapshot(t.Context(), "web", 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if _, all := filesIn(t, dir); len(all) != 1 || all[0].Total() != s.Total() {
			t.Errorf("%d files with %+v, want %+v", len(all), sumOf(all), s.Total())
		}
	})
}

// TestDiskHangs: a daemon whose disk does not answer ends in time, and names the target that is not filed.
func TestDiskHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, answer := newFakeHost(), make(chan struct{})
		var log strings.Builder
		c := filing(t.TempDir())
		d, err := newDaemon(Options{
			Load: func() (*config.Config, error) { return c, nil }, Engines: h.engines(), Logger: slog.New(slog.NewTextHandler(&log, nil)),
		}, h)
		if err != nil {
			t.Fatal(err)
		}
		d.periods.write = func(string, *ccmap.Snapshot) error { <-answer; return nil }
		h.start(web(10))
		ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute) // a period ends before
		defer stop()
		err = d.Run(ctx)
		ended, _ := ctx.Deadline()
		if took := time.Since(ended); took > closeTime {
			t.Errorf("it ended after %v", took)
		}
		if !errors.Is(err, errNoAnswer) || !strings.Contains(err.Error(), "target web") || !strings.Contains(log.String(), "target=web") {
			t.Errorf("%v, log: %s", err, log.String())
		}
		close(answer) // its goroutines end
	})
}

// TestSessionHangs: a session that does not end keeps the daemon and the files of others for so long alone.
func TestSessionHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, answer := newFakeHost(), make(chan struct{})
		dir := t.TempDir()
		c := filing(dir)
		d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }, Engines: h.engines()}, h)
		if err != nil {
			t.Fatal(err)
		}
		h.onOpen = func(pid int) {
			if pid == 11 {
				<-answer
			}
		}
		h.start(web(10))
		h.start(web(11))
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		err = d.Run(ctx)
		ended, _ := ctx.Deadline()
		if took := time.Since(ended); err != nil || took > closeTime {
			t.Errorf("it ended after %v: %v", took, err)
		}
		if _, all := filesIn(t, dir); len(all) != 1 || sumOf(all).Samples == 0 {
			t.Errorf("%d files with %d samples", len(all), sumOf(all).Samples)
		}
		close(answer)
	})
}

// TestRotateWhileFiling: a request to rotate does not wait for a disk for ever.
func TestRotateWhileFiling(t *testing.T) {
	t.Parallel()
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return filing(t.TempDir()), nil }, Engines: newFakeHost().engines()}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	d.roster.all()[0].filing <- struct{}{}
	ctx, leave := context.WithCancel(t.Context())
	leave()
	if err := d.Rotate(ctx, "web"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestRetiredWhileFiled: what a process counts between its file and its end is filed, although nobody needs its
// map any more.
func TestRetiredWhileFiled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return filing(dir), nil }, Engines: newFakeHost().engines()}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	web := d.roster.all()[0]
	m := profiletest.Thicket(1)
	s := &slot{m: m, build: "old", last: m.Snapshot(), retired: true, began: time.Now()}
	s.filed = s.last
	m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: "late"})}}, Weight: 10, Fresh: ccmap.FreshUnknown})
	s.last = m.Snapshot()
	web.shelf.slots = []*slot{s}
	if d.periods.forgetRetired(web); len(web.shelf.slots) != 1 || s.unfiledSamples() != 1 {
		t.Fatalf("%d slots after the file of another process", len(web.shelf.slots))
	}
	if err := d.periods.file(t.Context(), web); err != nil || len(web.shelf.slots) != 0 {
		t.Errorf("%v, %d slots are left", err, len(web.shelf.slots))
	}
	if _, all := filesIn(t, dir); sumOf(all).Samples != 1 {
		t.Errorf("files have %+v", sumOf(all))
	}
}

// TestGivenUp: where nothing can be written, so many slots wait, and the samples of others are counted as
// lost.
func TestGivenUp(t *testing.T) {
	t.Parallel()
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return filing(t.TempDir()), nil }, Engines: newFakeHost().engines()}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	web, last := d.roster.all()[0], profiletest.Thicket(1).Snapshot()
	for range retiredSlots + 1 {
		web.shelf.slots = append(web.shelf.slots, &slot{last: last, retired: true})
	}
	d.periods.forgetRetired(web)
	if got := mustTarget(t, d, "web").Counters.GivenUp; len(web.shelf.slots) != retiredSlots || got != uint64(last.Total().Samples) {
		t.Errorf("%d slots, %d samples are given up", len(web.shelf.slots), got)
	}
}

// TestRemovedIsFiledLater: a target that is removed while nothing can be written is filed when that
// is over.
func TestRemovedIsFiledLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	obstacle := filepath.Join(dir, targetsDir)
	if err := os.WriteFile(obstacle, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	inDaemon(t, filing(dir), func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		time.Sleep(3 * time.Minute)
		before := samplesOf(t, d, "web", 0)["main.work"]
		next := *d.Config()
		next.Targets = nil
		d.load = func() (*config.Config, error) { return &next, nil }
		if err := d.Reload(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Minute)
		if err := os.Remove(obstacle); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * fileAgain)
		synctest.Wait()
		if _, all := filesIn(t, dir); len(all) != 1 || sumOf(all).Samples < before {
			t.Errorf("%d files with %d samples, and there were %d", len(all), sumOf(all).Samples, before)
		}
		if len(d.roster.leaving) != 0 {
			t.Error("it is not forgotten")
		}
	})
}

// TestRemoveOld: files go by age, and then by size, the oldest first. Files of others stay.
func TestRemoveOld(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	c := filing(dir)
	c.Store.Keep, c.Store.MaxBytes = 48*time.Hour, 250
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string) string {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	period := func(build string, age time.Duration) string {
		return write(d.periods.path("web", build, now.Add(-age-time.Hour), now.Add(-age)))
	}
	gone := []string{period("old", 72*time.Hour), period("b", 30*time.Hour)}
	stays := []string{period("b", 20*time.Hour), period("c", 0), write(filepath.Join(dir, targetsDir, "web", "notes.txt")), write(filepath.Join(dir, "other.json.zst"))}
	d.periods.removeOld(now)
	for _, path := range gone {
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is still there: %v", path, err)
		}
	}
	if _, err := os.Stat(filepath.Dir(gone[0])); !os.IsNotExist(err) {
		t.Errorf("an empty directory stays: %v", err)
	}
	for _, path := range stays {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestClockJumps: a clock that is set ahead makes no file older than the time that has passed.
func TestClockJumps(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	for name, test := range map[string]struct {
		latest time.Duration // of the files at the start, after the start of the process
		wall   []time.Duration
		ran    []time.Duration
		want   []time.Duration
	}{
		"steady":             {0, []time.Duration{0, day, 2 * day}, []time.Duration{0, day, 2 * day}, []time.Duration{0, day, 2 * day}},
		"ahead":              {0, []time.Duration{0, 30 * day, 31 * day}, []time.Duration{0, time.Hour, day}, []time.Duration{0, time.Hour, day}},
		"ahead before start": {-day, []time.Duration{40 * day, 41 * day}, []time.Duration{0, day}, []time.Duration{-day, 0}},
		"ahead and back":     {0, []time.Duration{0, 30 * day, 2 * time.Hour}, []time.Duration{0, time.Hour, 2 * time.Hour}, []time.Duration{0, time.Hour, 2 * time.Hour}},
		"back":               {0, []time.Duration{0, -day, 0}, []time.Duration{0, time.Hour, 2 * time.Hour}, []time.Duration{0, -day, time.Hour - day}},
		"files of a future":  {365 * day, []time.Duration{0, day}, []time.Duration{0, day}, []time.Duration{0, day}},
	} {
		var r retention
		for i, wall := range test.wall {
			if got := r.now(start.Add(wall), test.ran[i], start.Add(test.latest)).Sub(start); got != test.want[i] {
				t.Errorf("%s, look %d: %v after the start, want %v", name, i, got, test.want[i])
			}
		}
	}
}

// TestJumpRemovesNoFiles: all files of a daemon are there after its clock has jumped ahead.
func TestJumpRemovesNoFiles(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	c.Store.Keep, c.Store.MaxBytes = 48*time.Hour, 0
	d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }}, newFakeHost())
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	var paths []string
	for age := range 3 {
		to := now.Add(-time.Duration(age) * time.Hour)
		path := d.periods.path("web", "b", to.Add(-time.Hour), to)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	d.periods.removeOld(now)
	d.periods.removeOld(now.Add(60 * 24 * time.Hour))
	for _, path := range paths {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}

// TestNamesOfPeriods: a build id leads nowhere.
func TestNamesOfPeriods(t *testing.T) {
	t.Parallel()
	for build, want := range map[string]string{"": "unknown", "../../etc/passwd": "______etc_pa", "q1W-x_2": "q1W_x_2"} {
		if got := buildName(build); got != want {
			t.Errorf("%q: %q, want %q", build, got, want)
		}
	}
	for _, name := range []string{"", "a.json.zst", "20260102T030405.000Z-x.json.zst", "x-20260102T030405.000Z.json.zst"} {
		if _, ok := periodEnd(name); ok {
			t.Errorf("%q is taken for a period", name)
		}
	}
}

// TestNextRotation: periods end on the wall clock, a little late.
func TestNextRotation(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 34, 56, 0, time.UTC)
	for range 100 {
		at := nextRotation(now, time.Hour)
		if hour := time.Date(2026, 11, 23, 13, 0, 0, 0, time.UTC); at.Before(hour) || at.After(hour.Add(3*time.Minute)) {
			t.Fatalf("next at %v", at)
		}
	}
}
