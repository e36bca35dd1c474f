package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/manager"
)

// jvmFor returns a process of a JVM, all of whose samples are of W.work.
func jvmFor(pid int) fakeProcess {
	p := web(pid)
	p.method, p.runs = "W.work()V", "OpenJDK 17.0.15+6"
	return p
}

// hintFor returns a hint for compilations of a method.
func hintFor(t testing.TB, root, callee string) hotspot.Hint {
	t.Helper()
	r, err := hotspot.ParseMethod(root)
	c, errCallee := hotspot.ParseMethod(callee)
	if err := errors.Join(err, errCallee); err != nil {
		t.Fatal(err)
	}
	return hotspot.Hint{Action: hotspot.Inline, Root: r, Caller: r, Callee: c, Bytecode: 3, Saves: 4, Reason: "of " + root}
}

// fakeTrials are trials in fake JVMs.
type fakeTrials struct {
	mu      sync.Mutex
	refuse  error // the answer to the next
	settled chan struct{}
	log     []string // "begin PID", "apply", "end"
	running int
}

func (f *fakeTrials) note(what string, running int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.log, f.running = append(f.log, what), f.running+running
	if f.running > 1 {
		f.log = append(f.log, "two at a time")
	}
}

func (f *fakeTrials) said() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.log)
}

func (f *fakeTrials) begin(_ context.Context, _ int, hints []hotspot.Hint) (trial, error) {
	if f.refuse != nil {
		return nil, f.refuse
	}
	f.note("begin", 1)
	return &fakeTrial{f, hints}, nil
}

type fakeTrial struct {
	*fakeTrials
	hints []hotspot.Hint
}

func (t *fakeTrial) Apply(context.Context, map[string]int64) error {
	t.note("apply", 0)
	return nil
}
func (t *fakeTrial) Settled() <-chan struct{} { return t.settled }
func (t *fakeTrial) Ended() <-chan struct{}   { return nil }

func (t *fakeTrial) Results() (results []hotspot.Result) {
	for _, h := range t.hints {
		results = append(results, hotspot.Result{Hint: h, Outcome: hotspot.Taken, Words: "inline (hot)"})
	}
	return results
}

func (t *fakeTrial) End(keep bool) error {
	if keep {
		t.note("kept", 0)
	}
	t.note("end", -1)
	return nil
}

// inHintingDaemon runs a test beside a daemon whose JVMs have hints, and whose methods are hot after a second.
func inHintingDaemon(t *testing.T, mode string, find func() []hotspot.Hint, test func(t *testing.T, h *fakeHost, d *Daemon, f *fakeTrials)) {
	t.Helper()
	c := webConfig(func(c *config.Config) {
		c.Feedback.HotSpot = mode
		c.Targets[0].Hot = config.Hot{Method: manager.Threshold{Time: time.Second}, Edge: manager.Threshold{Time: 1}}
	})
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		f := &fakeTrials{settled: make(chan struct{})}
		d.controller.begin = f.begin
		d.controller.find = func(*ccmap.Snapshot) []hotspot.Hint { return find() }
		test(t, h, d, f)
	})
}

// hintsOf returns the events about hints so far.
func hintsOf(t *testing.T, d *Daemon) (all []Hinted, texts []string) {
	t.Helper()
	events, cancel := d.Events(0)
	defer cancel()
	for len(events) > 0 {
		e := <-events
		if e.Kind != EventHint {
			continue
		}
		var h Hinted
		if err := json.Unmarshal(e.Data, &h); err != nil || e.Target != "web" || e.PID == 0 {
			t.Fatalf("event %+v: %v", e, err)
		}
		all, texts = append(all, h), append(texts, e.Text)
	}
	return all, texts
}

// TestHintsAreSuggested: of a hot method of a JVM an event has the hints, once, with directives and in the form that
// 'ccmapd apply' reads, and with what the fleet knows of the callee; not those of other methods.
func TestHintsAreSuggested(t *testing.T) {
	t.Parallel()
	find := func() []hotspot.Hint {
		return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V"), hintFor(t, "Other.work()V", "A.f()V")}
	}
	inHintingDaemon(t, config.FeedbackSuggest, find, func(t *testing.T, h *fakeHost, d *Daemon, f *fakeTrials) {
		d.controller.fleet = func(target string, _ *ccmap.Snapshot) fanin.List {
			return fanin.List{{Key: fanin.Key{Name: "A.f", Signature: "()V"}, FanIn: fanin.FanIn{Samples: 70, Other: 70, Callers: uint32(len(target))}}}
		}
		h.start(jvmFor(10))
		time.Sleep(3 * time.Minute)
		all, texts := hintsOf(t, d)
		if want := []string{"1 hint for compilations of W.work, which save 4.0% at most"}; !slices.Equal(texts, want) {
			t.Fatalf("events %q, want %q", texts, want)
		}
		if one := all[0]; one.Mode != "suggest" || !strings.Contains(one.Directives, `"match":["W.work()V"]`) || one.Results != nil || one.Refused != "" {
			t.Errorf("event %+v", one)
		}
		file, err := json.Marshal(all[0].Hints)
		if err != nil {
			t.Fatal(err)
		}
		back, err := hotspot.ReadFile(strings.NewReader(string(file)))
		want := find()[:1]
		want[0].Shared = &fanin.Called{Method: "A.f", Signature: "()V", Places: 3, Samples: 70, Source: fanin.OfFleet}
		if diff := cmp.Diff(want, back); err != nil || diff != "" {
			t.Errorf("the hints read back: %v (-want +got):\n%s", err, diff)
		}
		if said := f.said(); said != nil {
			t.Errorf("trials: %q", said)
		}
	})
}

// TestHintsComeLater: a method that has no hints when it becomes hot, as the JVM's counts are not read yet, is looked
// at again, but not for ever.
func TestHintsComeLater(t *testing.T) {
	t.Parallel()
	for after, want := range map[int]int{3: 1, mostLooks + 1: 0} {
		looks := 0
		find := func() []hotspot.Hint {
			if looks++; looks < after {
				return []hotspot.Hint{hintFor(t, "Other.work()V", "A.f()V")}
			}
			return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V")}
		}
		inHintingDaemon(t, config.FeedbackApply, find, func(t *testing.T, h *fakeHost, d *Daemon, _ *fakeTrials) {
			h.start(jvmFor(10))
			time.Sleep(30 * time.Minute)
			if all, texts := hintsOf(t, d); len(all) != want || looks != min(after, mostLooks) {
				t.Errorf("hints at look %d: events %q after %d looks", after, texts, looks)
			}
		})
	}
}

// TestHintsAreForJVMsWhereAsked: no hints are looked for where the mode is off, and of no other program.
func TestHintsAreForJVMsWhereAsked(t *testing.T) {
	t.Parallel()
	for mode, process := range map[string]fakeProcess{config.FeedbackOff: jvmFor(10), config.FeedbackApply: web(10)} {
		find := func() []hotspot.Hint {
			t.Errorf("%s: hints are looked for", mode)
			return nil
		}
		inHintingDaemon(t, mode, find, func(t *testing.T, h *fakeHost, _ *Daemon, _ *fakeTrials) {
			h.start(process)
			time.Sleep(3 * time.Minute)
		})
	}
}

// TestHintsAreApplied: two JVMs get their hints one after the other, until the compiler has settled or a minute is
// over. The event says what became of them, and the directives are withdrawn.
func TestHintsAreApplied(t *testing.T) {
	t.Parallel()
	find := func() []hotspot.Hint { return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V")} }
	inHintingDaemon(t, config.FeedbackApply, find, func(t *testing.T, h *fakeHost, d *Daemon, f *fakeTrials) {
		h.start(jvmFor(10))
		h.start(jvmFor(20))
		time.Sleep(30 * time.Second)
		if said, want := f.said(), []string{"begin", "apply"}; !slices.Equal(said, want) {
			t.Errorf("at first: %q, want %q", said, want)
		}
		time.Sleep(3 * time.Minute)
		if said, want := f.said(), []string{"begin", "apply", "end", "begin", "apply", "end"}; !slices.Equal(said, want) {
			t.Errorf("in the end: %q, want %q", said, want)
		}
		all, texts := hintsOf(t, d)
		const text = "1 hint for compilations of W.work, which save 4.0% at most; applied: 1 taken, and the directives are removed"
		if want := []string{text, text}; !slices.Equal(texts, want) {
			t.Fatalf("events %q, want %q", texts, want)
		}
		if r := all[0].Results; all[0].Mode != "apply" || len(r) != 1 || r[0].Outcome != hotspot.Taken {
			t.Errorf("event %+v", all[0])
		}
	})
}

// TestHintsEndEarly: directives are withdrawn as soon as the compiler has settled, the mode is switched off, or the
// target is paused.
func TestHintsEndEarly(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(d *Daemon, f *fakeTrials){
		"settled": func(_ *Daemon, f *fakeTrials) { close(f.settled) },
		"off": func(d *Daemon, _ *fakeTrials) {
			c := *d.Config()
			c.Feedback.HotSpot = config.FeedbackOff
			d.inForce.Store(&c)
		},
		"paused": func(d *Daemon, _ *fakeTrials) { _ = d.Pause("web") },
	} {
		find := func() []hotspot.Hint { return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V")} }
		inHintingDaemon(t, config.FeedbackApply, find, func(t *testing.T, h *fakeHost, d *Daemon, f *fakeTrials) {
			h.start(jvmFor(10))
			time.Sleep(10 * time.Second)
			end(d, f)
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if said, want := f.said(), []string{"begin", "apply", "end"}; !slices.Equal(said, want) {
				t.Errorf("%s: %q, want %q", name, said, want)
			}
		})
	}
}

// TestHintsEndWithTheDaemon: a daemon that ends leaves no directives.
func TestHintsEndWithTheDaemon(t *testing.T) {
	t.Parallel()
	var trials *fakeTrials
	find := func() []hotspot.Hint { return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V")} }
	inHintingDaemon(t, config.FeedbackApply, find, func(_ *testing.T, h *fakeHost, _ *Daemon, f *fakeTrials) {
		trials = f
		h.start(jvmFor(10))
		time.Sleep(10 * time.Second)
	})
	if said, want := trials.said(), []string{"begin", "apply", "end"}; !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
}

// TestHintsAreRefused: a JVM that does not take the daemon's commands has no hints, and the event says why.
func TestHintsAreRefused(t *testing.T) {
	t.Parallel()
	find := func() []hotspot.Hint { return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V")} }
	inHintingDaemon(t, config.FeedbackApply, find, func(t *testing.T, h *fakeHost, d *Daemon, f *fakeTrials) {
		f.refuse = os.ErrPermission
		h.start(jvmFor(10))
		time.Sleep(3 * time.Minute)
		all, texts := hintsOf(t, d)
		if len(all) != 1 || all[0].Refused != "permission denied" || !strings.HasSuffix(texts[0], "; not applied, or not removed: permission denied") {
			t.Errorf("events %+v, %q", all, texts)
		}
	})
}

// TestHintsOfAReplacedProcess: a number that has become another program's gets no hints.
func TestHintsOfAReplacedProcess(t *testing.T) {
	t.Parallel()
	inHintingDaemon(t, config.FeedbackApply, nil, func(t *testing.T, h *fakeHost, d *Daemon, f *fakeTrials) {
		d.controller.find = func(*ccmap.Snapshot) []hotspot.Hint {
			other := jvmFor(10)
			other.Started = 99
			h.start(other) // while hints are looked for
			return []hotspot.Hint{hintFor(t, "W.work()V", "A.f()V")}
		}
		h.start(jvmFor(10))
		time.Sleep(30 * time.Second)
		if said := f.said(); said != nil {
			t.Errorf("trials: %q", said)
		}
		if all, _ := hintsOf(t, d); len(all) != 1 || !strings.Contains(all[0].Refused, "has become another program") {
			t.Errorf("events %+v", all)
		}
	})
}

// TestNewsOfHints: a process has each hint once, the hints of a root together, and not too many at a time.
func TestNewsOfHints(t *testing.T) {
	t.Parallel()
	var all []hotspot.Hint
	about := make(map[string]bool)
	for i := range 3 * mostGiven {
		root := fmt.Sprint("R", i/4, ".work()V")
		all = append(all, hintFor(t, root, fmt.Sprint("C", i, ".f()V")))
		about[root] = true
	}
	h := hinted{given: make(map[call]bool)}
	seen := make(map[hotspot.Hint]int)
	for rounds := 0; ; rounds++ {
		news := h.news(all, about)
		if len(news) == 0 {
			break
		}
		if len(news) > mostGiven || len(news)%4 != 0 || rounds > 3 {
			t.Fatalf("%d hints at a time", len(news))
		}
		for _, one := range news {
			seen[one]++
		}
	}
	for _, one := range all {
		if seen[one] != 1 {
			t.Errorf("%s is given %d times", one.Callee, seen[one])
		}
	}
	large := make([]hotspot.Hint, 0, 2*mostGiven)
	for i := range 2 * mostGiven {
		large = append(large, hintFor(t, "L.work()V", fmt.Sprint("L", i, ".f()V")))
	}
	if n := len(h.news(large, map[string]bool{"L.work()V": true})); n != len(large) {
		t.Errorf("%d hints of a large root, want %d", n, len(large))
	}
}
