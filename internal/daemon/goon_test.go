package daemon

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestGoesOn: a daemon goes on where one was that has been killed: it answers before any process is sampled, with all
// but what came since the last round of the log, and the process goes on in the same map. No sample is in two places.
func TestGoesOn(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	c.Targets[0].Rotate = time.Hour
	killed := filepath.Join(t.TempDir(), "store")
	var before ccmap.Counters
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		time.Sleep(5*time.Minute + 7*time.Second)
		if err := os.CopyFS(killed, os.DirFS(c.Store.Dir)); err != nil { // as a kill leaves it
			t.Fatal(err)
		}
		s, err := d.Snapshot(t.Context(), "web", 0)
		if err != nil {
			t.Fatal(err)
		}
		before = s.Total()
	})
	second := *c
	second.Store.Dir = killed
	inDaemon(t, &second, func(t *testing.T, h *fakeHost, d *Daemon) {
		s, err := d.Snapshot(t.Context(), "web", 0)
		if err != nil {
			t.Fatal(err)
		}
		lost := before.Samples - s.Total().Samples
		if most := int64((c.Store.Every + 2*time.Second) / (10 * time.Millisecond)); lost < 0 || lost > most {
			t.Errorf("after a kill %d samples of %d are missing, want at most %d", lost, before.Samples, most)
		}
		h.start(web(10))
		time.Sleep(time.Minute)
		all := slotsOf(d)
		if len(all) != 1 {
			t.Fatalf("%d slots, want one that goes on", len(all))
		}
		now, err := d.Snapshot(t.Context(), "web", 10)
		if err != nil {
			t.Fatal(err)
		}
		if now.Total().Samples <= s.Total().Samples {
			t.Errorf("%d samples after a minute, %d before", now.Total().Samples, s.Total().Samples)
		}
		before = now.Total()
	})
	if _, all := filesIn(t, killed); sumOf(all).Samples < before.Samples {
		t.Errorf("the store has %d samples, and the map had %d", sumOf(all).Samples, before.Samples)
	}
}

// TestGoesOnOfAnother: what was counted for another owner or another build is not gone on with, and kept. What belongs
// to no target any more is filed.
func TestGoesOnOfAnother(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	c.Targets[0].Rotate = 0
	gone := c.Targets[0]
	gone.Name, gone.Match.Exe = "gone", "/srv/gone"
	c.Targets = append(c.Targets, gone)
	inDaemon(t, c, func(_ *testing.T, h *fakeHost, _ *Daemon) {
		h.start(web(10))
		other := web(11)
		other.Executable = "/srv/gone"
		h.start(other)
		time.Sleep(time.Minute)
	})
	if names, all := filesIn(t, c.Store.Dir); len(all) != 2 || strings.Join(names, " ") != "log log" {
		t.Fatalf("without periods all is in the log, want one of each target: %q", names)
	}
	second := *c
	second.Targets = c.Targets[:1]
	inDaemon(t, &second, func(t *testing.T, h *fakeHost, d *Daemon) {
		next := web(10)
		next.build, next.file, next.method = "build-2", process.FileID{Inode: 2}, "main.next"
		h.start(next)
		time.Sleep(10 * time.Second)
		if got := samplesOf(t, d, "web", 0); got["main.next"] == 0 || got["main.work"] != 0 {
			t.Errorf("of the second build: %v", got)
		}
	})
	names, all := filesIn(t, c.Store.Dir)
	filed := 0
	for _, name := range names {
		if strings.HasPrefix(name, "targets/gone/") {
			filed++
		}
	}
	if filed != 1 || sumOf(all).Samples < 2*55*100 {
		t.Errorf("%q have %d samples", names, sumOf(all).Samples)
	}
}

// TestBeginsAtTheIntervalOfBefore: a session that goes on begins at the interval to which the tuner came before.
func TestBeginsAtTheIntervalOfBefore(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	m.Meta().Interval = []ccmap.IntervalChange{{Interval: 10 * time.Millisecond}, {At: time.Hour, Interval: 40 * time.Millisecond}}
	s := &slot{m: m}
	tuned := config.Settings{Tune: true, Interval: 10 * time.Millisecond}
	fixed, bounded := tuned, tuned
	fixed.Tune, bounded.MaxInterval = false, 20*time.Millisecond
	for _, c := range []struct {
		is   config.Settings
		want time.Duration
	}{{tuned, 40 * time.Millisecond}, {fixed, 10 * time.Millisecond}, {bounded, 10 * time.Millisecond}} {
		if got := s.settled(c.is).Interval; got != c.want {
			t.Errorf("%+v begins at %v, want %v", c.is, got, c.want)
		}
	}
}

// TestBeginsAtTheIntervalOfTheStore: a map that begins anew takes the interval from the files of its build and owner,
// and of no other.
func TestBeginsAtTheIntervalOfTheStore(t *testing.T) {
	t.Parallel()
	kept, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"})), ccmap.Counters{Samples: 1, Time: 1})
	m.Meta().Interval = []ccmap.IntervalChange{{Interval: 10 * time.Millisecond}, {At: time.Minute, Interval: 4 * time.Millisecond, Reason: "repetitions: interval 10ms → 4ms"}}
	owner := process.Owner{UID: 1000, GID: 1000, Traceable: true}
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	if _, err := kept.File(store.Key{Target: "web", Build: "b", Owner: owner}, at, at.Add(time.Hour), m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		archive *store.Reader
		owner   process.Owner
		build   string
		goesOn  bool
		want    time.Duration
	}{
		"its own":           {kept.Reader(), owner, "b", false, 4 * time.Millisecond},
		"another build":     {kept.Reader(), owner, "c", false, 0},
		"unknown build":     {kept.Reader(), owner, "", false, 0},
		"another owner":     {kept.Reader(), process.Owner{UID: 1001, GID: 1001, Traceable: true}, "b", false, 0},
		"no store":          {nil, owner, "b", false, 0},
		"the map has begun": {kept.Reader(), owner, "b", true, 0},
	} {
		f := &follower{means: &means{archive: c.archive}, aim: aim{config.Target{Name: "web"}}, owner: c.owner}
		into := &slot{m: ccmap.New(ccmap.Options{})}
		if c.goesOn {
			into.m.Meta().Interval = m.Meta().Interval
		}
		info := sampler.Info{Target: ccmap.Target{BuildID: c.build}, Unit: ccmap.CPUTime}
		if got := f.settledBefore(t.Context(), into, info); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// TestTunesFromTheStore: the first session of a daemon with a build that it has seen before begins where that had
// settled.
func TestTunesFromTheStore(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	kept, err := store.Open(store.Options{Dir: c.Store.Dir})
	if err != nil {
		t.Fatal(err)
	}
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.main"})), ccmap.Counters{Samples: 1, Time: 1})
	m.Meta().Interval = []ccmap.IntervalChange{{At: time.Minute, Interval: 4 * time.Millisecond, Reason: "repetitions: interval 10ms → 4ms"}}
	at := time.Date(1999, 11, 20, 10, 0, 0, 0, time.UTC)
	if _, err := kept.File(store.Key{Target: "web", Build: "build-1"}, at, at.Add(time.Hour), m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	kept.Close()
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		other := web(11)
		other.build, other.file = "build-2", process.FileID{Inode: 2}
		h.start(web(10))
		h.start(other)
		time.Sleep(5 * time.Second)
		is, err := d.Target("web")
		if err != nil || len(is.Processes) != 2 {
			t.Fatalf("%v, %d processes", err, len(is.Processes))
		}
		for _, p := range is.Processes {
			want := map[int]time.Duration{10: 4 * time.Millisecond, 11: c.Defaults.Interval}[p.PID]
			if is := time.Duration(p.Status.IntervalNS); is != want {
				t.Errorf("process %d is sampled every %v, want %v", p.PID, is, want)
			}
		}
	})
}

// TestDisownedInTheLog: what the log has of a process that its user may not trace any more is root's, and counts once.
func TestDisownedInTheLog(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	c.Listen.Open, c.Targets[0].Rotate = true, 0
	owner := process.Owner{UID: 1000, GID: 1000, Traceable: true}
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		p := web(10)
		p.Owner = owner
		h.start(p)
		time.Sleep(time.Minute)
		slots := slotsOf(d)
		if len(slots) != 1 {
			t.Fatalf("%d slots", len(slots))
		}
		d.roster.all()[0].shelf.disown(slots[0].session)
		time.Sleep(time.Minute)
		synctest.Wait()
	})
	kept, err := store.Open(store.Options{Dir: c.Store.Dir})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	all := kept.Recovered()
	if len(all) != 1 || all[0].Key.Owner.Traceable {
		t.Fatalf("%d profiles in the log, want one of root's: %+v", len(all), all)
	}
	if n := all[0].Map.Snapshot().Total().Samples; n < 100*100 || n > 125*100 {
		t.Errorf("%d samples of two minutes", n)
	}
}
