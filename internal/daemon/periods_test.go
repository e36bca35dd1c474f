package daemon

import (
	"context"
	"errors"
	"io/fs"
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
	"github.com/ccmapd/ccmapd/internal/store"
)

// filing is a configuration that keeps files of periods of a minute.
func filing(dir string) *config.Config {
	return webConfig(func(c *config.Config) {
		c.Store.Files, c.Store.Dir = true, dir
		c.Targets[0].Rotate = time.Minute
	})
}

// filesIn returns what a store has, when its daemon has ended: files of periods, the oldest first, and then what the
// log has, which is named "log".
func filesIn(t *testing.T, dir string) (names []string, all []*ccmap.Snapshot) {
	t.Helper()
	names, all = periodsIn(t, dir)
	kept, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	for _, r := range kept.Recovered() {
		names, all = append(names, "log"), append(all, r.Map.Snapshot())
	}
	return names, all
}

// periodsIn returns the files of periods, the oldest first.
func periodsIn(t *testing.T, dir string) (names []string, all []*ccmap.Snapshot) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), "targets", func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".json.zst") && !strings.HasPrefix(e.Name(), "best") {
			names = append(names, path)
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	slices.SortFunc(names, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	for _, name := range names {
		m, _, err := export.ReadFile(filepath.Join(dir, name), export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m.Snapshot())
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
		names, all := periodsIn(t, dir)
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
	period, _, err := s.since(t.Context(), s.filed)
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

// obstruct puts a file in the place of the directory of all files.
func obstruct(t *testing.T, dir string) (obstacle string) {
	t.Helper()
	obstacle = filepath.Join(dir, "targets")
	if err := errors.Join(os.Remove(obstacle), os.WriteFile(obstacle, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	return obstacle
}

// TestUnwritablePeriod: a period that cannot be written is part of the next one.
func TestUnwritablePeriod(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	inDaemon(t, filing(dir), func(t *testing.T, h *fakeHost, d *Daemon) {
		obstacle := obstruct(t, dir)
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
		if _, all := periodsIn(t, dir); len(all) != 1 || all[0].Total() != s.Total() {
			t.Errorf("%d files with %+v, want %+v", len(all), sumOf(all), s.Total())
		}
	})
}

// hanging is a store on a disk that does not answer.
type hanging struct {
	keeper
	answer chan struct{}
}

func (h hanging) Append(...store.Frame) error { <-h.answer; return nil }

func (h hanging) File(store.Key, time.Time, time.Time, *ccmap.Snapshot, ...*store.Stream) (string, error) {
	<-h.answer
	return "", nil
}

// openStoreOf opens the store of a daemon that does not run, and closes it with the test.
func openStoreOf(t *testing.T, d *Daemon) {
	t.Helper()
	if err := d.OpenStore(); err != nil {
		t.Fatal(err)
	}
	kept := d.periods.keeper
	t.Cleanup(func() { kept.Close() })
}

// TestDiskHangs: a daemon whose disk does not answer ends in time, and names the target that is not logged.
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
		openStoreOf(t, d)
		d.periods.keeper = hanging{d.periods.keeper, answer}
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
		if err := d.OpenStore(); err != nil {
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
	openStoreOf(t, d)
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
	openStoreOf(t, d)
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
	if _, all := periodsIn(t, dir); sumOf(all).Samples != 1 {
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
	inDaemon(t, filing(dir), func(t *testing.T, h *fakeHost, d *Daemon) {
		obstacle := obstruct(t, dir)
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
		if _, all := periodsIn(t, dir); len(all) != 1 || sumOf(all).Samples < before {
			t.Errorf("%d files with %d samples, and there were %d", len(all), sumOf(all).Samples, before)
		}
		if len(d.roster.leaving) != 0 {
			t.Error("it is not forgotten")
		}
	})
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
