package daemon

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/fleet"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// fakeJudge is a hub that says which instances differ. mu guards the rest.
type fakeJudge struct {
	mu     sync.Mutex
	list   func(instance string) ([]fleet.OutlierOf, error)
	asked  int
	closed int
}

func (j *fakeJudge) Outliers(_ context.Context, instance string) ([]fleet.OutlierOf, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked++
	return j.list(instance)
}

func (j *fakeJudge) Close() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.closed++
}

// counts returns how often it was asked, and its connection closed.
func (j *fakeJudge) counts() (asked, closed int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.asked, j.closed
}

func (j *fakeJudge) says(list func(instance string) ([]fleet.OutlierOf, error)) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.list = list
}

// outlierOf is an outlier of target web.
func outlierOf(instance string) fleet.OutlierOf {
	return fleet.OutlierOf{Target: "web", Build: "build-1", Unit: "cpu/nanoseconds", Outlier: fleet.Outlier{
		Instance: instance, Others: 41, Overlap: 80, Expected: 97, Method: "main.gzip", Points: 12, Error: 1.5,
	}}
}

// textsOf returns the texts of the events of a kind so far.
func textsOf(d *Daemon, kind Kind) (texts []string) {
	events, cancel := d.Events(0)
	cancel()
	for e := range events {
		if e.Kind == kind {
			texts = append(texts, e.Target+": "+e.Text)
		}
	}
	return texts
}

// TestOutlier: one event says that this machine differs from the others of a build, and one that it does no more. The
// hub is asked once each period at most. A hub that does not answer changes neither that nor the state of sending.
func TestOutlier(t *testing.T) {
	t.Parallel()
	hub, judge := newFakeHub(), &fakeJudge{}
	none := func(string) ([]fleet.OutlierOf, error) { return nil, nil }
	differs := func(instance string) ([]fleet.OutlierOf, error) { return []fleet.OutlierOf{outlierOf(instance)}, nil }
	busy := func(string) ([]fleet.OutlierOf, error) { return nil, errors.New("busy") }
	judge.says(none)
	inPreparedDaemon(t, sending(t.TempDir()), nil, func(d *Daemon) {
		hub.prepare(d)
		d.lookout.dial = func(o uplink.Options) (knowsOutliers, error) {
			if o.TokenFile != "/r" || o.Timeout == 0 {
				t.Errorf("asked with %+v", o)
			}
			return judge, nil
		}
	}, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.start(web(10))
		first := "web: this machine differs from 41 others of build build_1: +12 ± 2 points in \"main.gzip\""
		last := "web: this machine does not differ from the others of build build_1 any more"
		for i, step := range []struct {
			says func(string) ([]fleet.OutlierOf, error)
			want []string
		}{
			{none, nil}, {busy, nil}, {differs, []string{first}}, {busy, []string{first}}, {differs, []string{first}},
			{none, []string{first, last}}, {busy, []string{first, last}}, {differs, []string{first, last, first}},
		} {
			judge.says(step.says)
			time.Sleep(2 * time.Minute)
			if got := textsOf(d, EventOutlier); strings.Join(got, "\n") != strings.Join(step.want, "\n") {
				t.Errorf("step %d: events %q, want %q", i, got, step.want)
			}
		}
		if asked, closed := judge.counts(); asked < 12 || asked > 16 || closed != asked {
			t.Errorf("asked %d times in 16 minutes, and %d connections closed", asked, closed)
		}
		if is := d.sender.status(); is.State != HubWorks || is.Failures != 0 || len(eventsOf(d)) != 1 {
			t.Errorf("sending: %+v, events %q", is, eventsOf(d))
		}
	})
}

// TestOutlierLies: what a hub cannot know of this machine raises no event, and its names are quoted and cut.
func TestOutlierLies(t *testing.T) {
	t.Parallel()
	hub, judge := newFakeHub(), &fakeJudge{}
	judge.says(func(instance string) (list []fleet.OutlierOf, err error) {
		for _, lie := range []func(o *fleet.OutlierOf){
			func(o *fleet.OutlierOf) { o.Instance = strings.Repeat("0", 32) },
			func(o *fleet.OutlierOf) { o.Target = "quiet" },
			func(o *fleet.OutlierOf) { o.Target = "\x1b[31mroot" },
			func(o *fleet.OutlierOf) { o.Build = "" },
			func(o *fleet.OutlierOf) { o.Build = strings.Repeat("b", 1<<16) },
			func(o *fleet.OutlierOf) { o.Unit = strings.Repeat("u", 1<<16) },
			func(o *fleet.OutlierOf) { o.Others = 0 },
			func(o *fleet.OutlierOf) { o.Points = -1e300 },
			func(o *fleet.OutlierOf) { o.Error = -1 },
			func(o *fleet.OutlierOf) { o.Overlap = 101 },
		} {
			o := outlierOf(instance)
			lie(&o)
			list = append(list, o)
		}
		for i := range 3 * mostOdd {
			o := outlierOf(instance)
			o.Build, o.Unit = strings.Repeat("b", i+1), "\x1b[31m\u202e/"
			o.Method = "\x1b[2J\nlevel=ERROR " + strings.Repeat("m", 1<<16)
			list = append(list, o)
		}
		return list, nil
	})
	inPreparedDaemon(t, sending(t.TempDir()), nil, func(d *Daemon) {
		hub.prepare(d)
		d.lookout.dial = func(uplink.Options) (knowsOutliers, error) { return judge, nil }
	}, func(t *testing.T, _ *fakeHost, d *Daemon) {
		time.Sleep(3 * time.Minute)
		texts := textsOf(d, EventOutlier)
		if len(texts) != mostOdd {
			t.Errorf("%d events, want %d", len(texts), mostOdd)
		}
		for _, text := range texts {
			if !strings.HasPrefix(text, "web: this machine differs from 41 others") || len(text) > 3*mostOddName || strings.ContainsAny(text, "\x1b\n\u202e") {
				t.Errorf("event %.300q", text)
			}
		}
	})
}

// TestOutlierIsAskedNothing: without a token that reads, a machine asks nothing.
func TestOutlierIsAskedNothing(t *testing.T) {
	t.Parallel()
	hub := newFakeHub()
	c := sending(t.TempDir())
	c.Hub.ReadTokenFile = ""
	inPreparedDaemon(t, c, nil, func(d *Daemon) {
		hub.prepare(d)
		d.lookout.dial = func(uplink.Options) (knowsOutliers, error) {
			t.Error("the hub is asked")
			return nil, errors.New("no token")
		}
	}, func(*testing.T, *fakeHost, *Daemon) { time.Sleep(10 * time.Minute) })
}
