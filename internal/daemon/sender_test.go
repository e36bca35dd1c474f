package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/contribution"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// fakeHub is a hub that has a bad time, or lies. mu guards all.
type fakeHub struct {
	mu      sync.Mutex
	fails   func(n int) error // the answer to the n-th contribution, which arrives unless the error is of the way
	sends   int
	samples map[string]int64 // by target
	seen    map[string]bool
	builds  []uplink.Build
	best    map[string][]byte // by build
}

func newFakeHub() *fakeHub {
	return &fakeHub{samples: map[string]int64{}, seen: map[string]bool{}, best: map[string][]byte{}}
}

func (h *fakeHub) Send(_ context.Context, frame []byte) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	f, err := contribution.One(frame)
	if err != nil {
		return err
	}
	h.sends++
	if h.fails != nil {
		if err := h.fails(h.sends); err != nil {
			return err
		}
	}
	k := f.Key
	name := fmt.Sprint(k.Target, k.Build, k.Instance, k.Epoch, k.Seq)
	if h.seen[name] {
		return nil
	}
	h.seen[name] = true
	m, _, err := export.Read(bytes.NewReader(f.Body), export.ReadOptions{})
	if err != nil {
		return err
	}
	h.samples[k.Target] += m.Snapshot().Total().Samples
	return nil
}

func (h *fakeHub) Builds(context.Context, string) ([]uplink.Build, error) { return h.builds, nil }

func (h *fakeHub) Best(_ context.Context, of uplink.Build) ([]byte, error) {
	if body, has := h.best[of.Build]; has {
		return body, nil
	}
	return nil, fs.ErrNotExist
}

func (h *fakeHub) Outliers(context.Context, string) ([]fleet.OutlierOf, error) { return nil, nil }

func (h *fakeHub) FanIn(context.Context, uplink.Build, string) ([]byte, string, error) {
	return nil, "", fs.ErrNotExist
}

func (h *fakeHub) Close() {}

func (h *fakeHub) of(target string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.samples[target]
}

func (h *fakeHub) attempts() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sends
}

func (h *fakeHub) set(fails func(n int) error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.fails = fails
}

// sending is a configuration with a hub, and files of an hour.
func sending(dir string) *config.Config {
	c := filing(dir)
	c.Hub = config.Hub{URL: "https://hub.example", TokenFile: "/t", ReadTokenFile: "/r", Every: time.Minute}
	c.Targets[0].Rotate = time.Hour
	quiet := c.Targets[0]
	quiet.Name, quiet.Match.Exe, quiet.Send = "quiet", "/srv/quiet", false
	c.Targets = append(c.Targets, quiet)
	return c
}

func (h *fakeHub) prepare(d *Daemon) {
	d.sender.dial = func(uplink.Options) (sends, error) { return h, nil }
	d.learner.dial = func(uplink.Options) (asks, error) { return h, nil }
	d.lookout.dial = func(uplink.Options) (knowsOutliers, error) { return h, nil }
	d.gleaner.dial = func(uplink.Options) (knowsFanIn, error) { return h, nil }
}

// filedSamples returns the samples of all files of a target.
func filedSamples(t *testing.T, dir, target string) (n int64) {
	t.Helper()
	names, all := periodsIn(t, dir)
	for i, name := range names {
		if strings.HasPrefix(name, "targets/"+target+"/") {
			n += all[i].Total().Samples
		}
	}
	return n
}

// eventsOf returns the texts of the events of the hub so far.
func eventsOf(d *Daemon) (texts []string) {
	events, cancel := d.Events(0)
	cancel()
	for e := range events {
		if e.Kind == EventHub {
			texts = append(texts, e.Text)
		}
	}
	return texts
}

// TestSends: the hub gets each filed sample of a target that is sent once, however long it was away and whatever it
// answered; each change of its state is told once, and what waits is no more than files.
func TestSends(t *testing.T) {
	t.Parallel()
	dir, hub := t.TempDir(), newFakeHub()
	var log bytes.Buffer
	inPreparedDaemon(t, sending(dir), slog.New(slog.NewTextHandler(&log, nil)), hub.prepare, func(t *testing.T, h *fakeHost, d *Daemon) {
		const perMinute = 600
		h.every = time.Minute / perMinute
		h.start(web(10))
		quiet := web(11)
		quiet.Executable, quiet.file.Inode = "/srv/quiet", 2
		h.start(quiet)
		time.Sleep(10 * time.Minute)
		is := d.sender.status()
		if is.State != HubWorks || is.Sent < 8 || is.Waiting > 1 || is.Lost != 0 || len(is.Instance) != 32 {
			t.Errorf("after ten minutes: %+v", is)
		}
		before := hub.of("web")
		hub.set(func(int) error { return errors.New("the hub is away") })
		sends := hub.attempts()
		time.Sleep(40 * time.Minute)
		is = d.sender.status()
		if hub.of("web") != before || is.State != HubFails || is.Waiting < 36 || !strings.Contains(is.Reason, "away") {
			t.Errorf("while the hub was away: %+v", is)
		}
		if n := hub.attempts() - sends; n < 4 || n > 27 {
			t.Errorf("%d attempts in 40 minutes", n)
		}
		hub.set(func(n int) error { // lost answers, and a busy hub
			if n%3 == 0 {
				return errors.New("busy")
			}
			return nil
		})
		time.Sleep(30 * time.Minute)
		hub.set(nil)
		if err := d.Rotate(t.Context(), "web"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(6 * time.Minute)
		want, got := filedSamples(t, dir, "web"), hub.of("web")
		if waits := d.sender.status().Waiting; got > want || want-got > int64(perMinute*(waits+1)) || waits > 1 {
			t.Errorf("the hub has %d samples of %d, and %d files wait", got, want, waits)
		}
		if hub.of("quiet") != 0 || filedSamples(t, dir, "quiet") == 0 {
			t.Errorf("of a target that is not sent the hub has %d samples", hub.of("quiet"))
		}
		texts := eventsOf(d)
		if len(texts) < 3 || texts[0] != "the hub gets what is filed" || !strings.Contains(texts[1], "away") {
			t.Errorf("events %q", texts)
		}
		for i, text := range texts[1:] { // a state that stays is told once, however many attempts it lasts
			if text == texts[i] {
				t.Errorf("%q is told twice in %q", text, texts)
			}
		}
	})
}

// TestHubRefuses: what the hub never takes is dropped and told; an instance that another machine has gets another name;
// a new epoch begins when the hub says that one is over.
func TestHubRefuses(t *testing.T) {
	t.Parallel()
	dir, hub := t.TempDir(), newFakeHub()
	inPreparedDaemon(t, sending(dir), nil, hub.prepare, func(t *testing.T, h *fakeHost, d *Daemon) {
		first := d.sender.status().Instance
		answers := map[int]error{1: uplink.ErrPoison, 2: uplink.ErrClone, 4: uplink.ErrOver}
		hub.set(func(n int) error { return answers[n] })
		h.start(web(10))
		time.Sleep(10 * time.Minute)
		is := d.sender.status()
		if is.Lost != 1 || is.Instance == first || is.State != HubWorks || is.Waiting > 1 {
			t.Errorf("%+v", is)
		}
		lost := int64(2 * 60 * 100) // the first file, and the one that waits
		if want, got := filedSamples(t, dir, "web"), hub.of("web"); got > want || want-got > lost {
			t.Errorf("the hub has %d samples of %d", got, want)
		}
	})
}

// hubProfile returns what a hub sends: a method with its body, at a time.
func hubProfile(t *testing.T, build string, body uint64) []byte {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	m.Add(m.Child(0, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "main.work", Body: body})), ccmap.Counters{Samples: 700, Time: 7e9})
	m.Meta().Target = ccmap.Target{BuildID: build, Executable: "/of/others"}
	var b bytes.Buffer
	if err := export.Write(&b, export.JSON, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestBeginsWithWhatTheHubKnows: a build that was never sampled here begins with the hub's profile of it, or with what
// holds of the nearest. What is of another build, or has other code than the first samples, is not used.
func TestBeginsWithWhatTheHubKnows(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		best  map[string][]byte // that the hub sends, by the build that is asked for
		first bool              // there is a profile at once
		later string            // what its comment has in the end; empty: there is none
	}{
		"the build":              {map[string][]byte{"build-1": hubProfile(t, "build-1", 5)}, true, "of this build"},
		"another build":          {map[string][]byte{"build-1": hubProfile(t, "build-2", 5)}, false, ""},
		"a lie":                  {map[string][]byte{"build-1": hubProfile(t, "build-1", 6)}, true, ""},
		"noise":                  {map[string][]byte{"build-1": []byte("<html>")}, false, ""},
		"the nearest":            {map[string][]byte{"build-0": hubProfile(t, "build-0", 5)}, false, "build_0"},
		"nothing near":           {map[string][]byte{"build-0": hubProfile(t, "build-0", 6)}, false, ""},
		"the nearest is another": {map[string][]byte{"build-0": hubProfile(t, "build-7", 5)}, false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, hub := t.TempDir(), newFakeHub()
			hub.best = c.best
			for build := range c.best {
				hub.builds = append(hub.builds, uplink.Build{Target: "web", Build: build, Unit: "cpu/nanoseconds"})
			}
			file := filepath.Join(dir, "targets/web/build_1/cpu/fleet.json.zst")
			inPreparedDaemon(t, sending(dir), nil, hub.prepare, func(t *testing.T, h *fakeHost, d *Daemon) {
				p := web(10)
				p.body = 5
				h.start(p)
				time.Sleep(1500 * time.Millisecond)
				if _, err := os.Stat(file); (err == nil) != c.first {
					t.Errorf("at first: %v", err)
				}
				time.Sleep(30 * time.Second)
				m, _, err := export.ReadFile(file, export.ReadOptions{})
				if c.later == "" {
					if !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("it is kept: %v", err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if text := strings.Join(m.Meta().Comments, "\n"); !strings.Contains(text, c.later) || m.Meta().Target.Executable != "" || m.Snapshot().Total().Samples != 700 {
					t.Errorf("%q, %+v", text, m.Meta())
				}
			})
		})
	}
}

// TestSlowHub: a hub that does not answer puts no session off by more than a second.
func TestSlowHub(t *testing.T) {
	t.Parallel()
	hub := newFakeHub()
	inPreparedDaemon(t, sending(t.TempDir()), nil, func(d *Daemon) {
		hub.prepare(d)
		d.learner.dial = func(uplink.Options) (asks, error) { return slowHub{hub}, nil }
	}, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		time.Sleep(2*pastWait + 2*time.Second)
		if h.nowSampled() != 1 {
			t.Error("the process is not sampled")
		}
	})
}

type slowHub struct{ *fakeHub }

func (slowHub) Best(ctx context.Context, _ uplink.Build) ([]byte, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}
