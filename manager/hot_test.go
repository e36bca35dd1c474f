package manager

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/queue"
)

// heatUp runs a session in which root calls warm for 1 s and then hot for 2 s of
// CPU time, and returns the events by the name of the method.
func heatUp(t *testing.T, limit Thresholds) map[string]Event {
	t.Helper()
	events := make(map[string]Event)
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
		for i := range 3000 {
			leaf := "hot"
			if i < 1000 {
				leaf = "warm"
			}
			r.Push(stack(names, leaf, "root"))
			time.Sleep(time.Millisecond)
		}
	})
	s.config.Hot = limit
	s.config.OnHot = func(e Event) {
		name := s.config.Map.Names().At(e.Method).Name
		if _, twice := events[name]; twice {
			t.Errorf("%s was raised twice", name)
		}
		events[name] = e
	}
	s.mustRun(t)
	return events
}

func TestMethodsBecomeHot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := 1500 * time.Millisecond
		events := heatUp(t, Thresholds{Method: Threshold{Time: limit}})
		for _, name := range []string{"root", "hot"} {
			e, ok := events[name]
			got := time.Duration(e.Counters.Time)
			if late := limit/lateStep + 2*defaultPublishEvery; !ok || got < limit || got > limit+late {
				t.Errorf("%s was raised at %v, want %v", name, got, limit)
			}
			if ok && (e.Caller != ccmap.NoMethod || e.Snapshot.Total().Time < int64(limit)) {
				t.Errorf("event of %s: %+v", name, e)
			}
		}
		if len(events) != 2 {
			t.Errorf("%d events, want 2", len(events))
		}
	})
}

func TestEdgesBecomeHot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		limit := 500 * time.Millisecond
		events := heatUp(t, Thresholds{Edge: Threshold{Time: limit}})
		for _, name := range []string{"warm", "hot"} {
			e, ok := events[name]
			if !ok || e.Offset != 2 || e.Counters.Time < int64(limit) {
				t.Errorf("event of root calling %s: %+v", name, e)
			}
			if caller := e.Snapshot.Names().At(e.Caller).Name; caller != "root" {
				t.Errorf("%s was called by %s", name, caller)
			}
		}
		if len(events) != 2 {
			t.Errorf("%d events, want 2", len(events))
		}
	})
}

// TestHotAtTheEnd checks that a method that becomes hot in the last turn raises an
// event, although that turn comes too early for a look.
func TestHotAtTheEnd(t *testing.T) {
	t.Parallel()
	raised := 0
	s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
		r.Push(stack(names, "leaf"))
	})
	s.config.Hot = Thresholds{Method: Threshold{Time: time.Millisecond}}
	s.config.OnHot = func(Event) { raised++ }
	s.mustRun(t)
	if raised != 1 {
		t.Errorf("%d events, want 1", raised)
	}
}

func TestNothingBecomesHotBelowTheThreshold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		if events := heatUp(t, Thresholds{Method: Threshold{Time: time.Hour}, Edge: Threshold{Time: time.Hour}}); len(events) != 0 {
			t.Errorf("events %v", events)
		}
	})
}

func mustPath(t rapid.TB, text string) HotPath {
	var p HotPath
	if err := p.UnmarshalText([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return p
}

// drawStack draws the names of a stack, innermost first, with recursion.
func drawStack(t *rapid.T) []string {
	return rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", "d"}), 1, 6).Draw(t, "stack")
}

// hasPath reports whether a path, outermost first, stands on a stack, innermost first.
func hasPath(stack, path []string) bool {
	outermostFirst := slices.Clone(stack)
	slices.Reverse(outermostFirst)
	for i := range outermostFirst {
		if rest := outermostFirst[i:]; len(rest) >= len(path) && slices.Equal(rest[:len(path)], path) {
			return true
		}
	}
	return false
}

// TestTimesAreReachedOnce: whatever is sampled, and whenever the manager looks, each method, edge and path
// raises one event, if its time reaches the threshold at all; and no sooner.
func TestTimesAreReachedOnce(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		limit := time.Duration(rapid.IntRange(1, 20).Draw(t, "limit")) * time.Millisecond
		path := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 4).Draw(t, "path")
		names := ccmap.NewNames()
		m := ccmap.New(ccmap.Options{Names: names})
		got, want := make(map[string]int), make(map[string]int)
		c := Config{Logger: slog.New(slog.DiscardHandler), OnHot: func(e Event) {
			what := names.At(e.Method).Name
			switch {
			case e.Path != nil:
				what = e.Path.String()
			case e.Caller != ccmap.NoMethod:
				what = names.At(e.Caller).Name + " calls " + what
			}
			if got[what]++; e.Counters.Time < int64(limit) {
				t.Errorf("%s is raised at %v, before %v", what, time.Duration(e.Counters.Time), limit)
			}
		}}
		one := Threshold{Time: limit}
		c.Hot = Thresholds{Method: one, Edge: one, Paths: []HotPath{mustPath(t, strings.Join(path, " > "))}}
		pathName := c.Hot.Paths[0].Path.String()
		if len(path) == 1 {
			pathName = path[0]
		}
		h := newHotness(c)
		time := make(map[string]int64)
		for _, methods := range rapid.SliceOfN(rapid.Custom(drawStack), 1, 60).Draw(t, "stacks") {
			s := stack(names, methods...)
			for i := range s.Frames {
				s.Frames[i].Offset = 0
			}
			m.Fold(s)
			for _, method := range slices.Compact(slices.Sorted(slices.Values(methods))) {
				time[method] += s.Weight
			}
			for i := range methods[1:] {
				time[methods[i+1]+" calls "+methods[i]] += s.Weight
			}
			if hasPath(methods, path) && len(path) > 1 {
				time[pathName] += s.Weight
			}
			if rapid.Bool().Draw(t, "look") {
				h.look(m.Snapshot())
			}
		}
		h.end(m.Snapshot())
		for what, ns := range time {
			if ns >= int64(limit) {
				want[what]++
			}
		}
		if len(path) == 1 && want[pathName] > 0 {
			want[pathName]++ // as a method, and as a path
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// heatPhase is a part of a run in which a method has an even share of the samples.
type heatPhase struct {
	percent int
	ticks   int
	idle    bool // no samples
}

func drawPhase(t *rapid.T) heatPhase {
	return heatPhase{
		percent: rapid.SampledFrom([]int{0, 5, 14, 24, 40, 60, 80, 100}).Draw(t, "percent"),
		ticks:   rapid.SampledFrom([]int{20, 200, 400, 800}).Draw(t, "ticks"),
		idle:    rapid.IntRange(0, 5).Draw(t, "idle") == 0,
	}
}

// TestShares holds the events of a share against the exact share of all samples by their ages: an event comes
// when the share is reached, soon, and again only after the method was cold.
func TestShares(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		limit := float64(rapid.SampledFrom([]int{20, 30, 50, 90}).Draw(r, "limit"))
		phases := rapid.SliceOfN(rapid.Custom(drawPhase), 1, 6).Draw(r, "phases")
		var err error
		synctest.Test(t, func(*testing.T) { err = holdShares(limit, phases) }) // of rapid nothing can be asked there
		if err != nil {
			r.Fatal(err)
		}
	})
}

// holdShares runs a program of some phases by the test's clock, and returns the first event that is wrong or missing.
func holdShares(limit float64, phases []heatPhase) error {
	const (
		window = 10 * time.Second
		tick   = 50 * time.Millisecond // a sample each
		soon   = window / 4
		near   = 2 // points between looks and the exact share
	)
	names := ccmap.NewNames()
	m := ccmap.New(ccmap.Options{Names: names})
	var events []Event
	h := newHotness(Config{
		Hot: Thresholds{Method: Threshold{Percent: limit, Window: window}}, PublishEvery: defaultPublishEvery,
		OnHot: func(e Event) {
			if names.At(e.Method).Name == "x" {
				events = append(events, e)
			}
		},
	})
	var total, x, owed float64 // exact, of samples; owed: until the next one of x
	var hotFor, coldFor time.Duration
	sinceCold, lowest := 0, 0.0
	for _, p := range phases {
		for range p.ticks {
			time.Sleep(tick)
			fade := math.Exp(-float64(tick) / float64(window))
			total, x = total*fade, x*fade
			if !p.idle {
				s := stack(names, "y")
				if owed += float64(p.percent) / 100; owed >= 1 {
					s, x, owed = stack(names, "x"), x+1, owed-1
				}
				s.Weight = int64(tick)
				m.Fold(s)
				total++
			}
			share := 100 * x / max(total, 1e-9)
			lowest = min(lowest, share)
			if n := len(events); h.due(m.Snapshot().Total().Time) {
				h.look(m.Snapshot())
				for _, e := range events[n:] {
					if math.Abs(e.Percent-share) > near || e.Percent < limit || x < fewSamples-near {
						return fmt.Errorf("an event at %.1f %%, which are %.1f %% of %.0f samples; the limit is %v %%", e.Percent, share, total, limit)
					}
					if lowest > limit/2+near {
						return fmt.Errorf("an event although the method had %.1f %% or more since the last one", lowest)
					}
					sinceCold++
					lowest = share
				}
			}
			hotFor, coldFor = hotFor+tick, coldFor+tick
			if share < limit+near || x < fewSamples+near {
				hotFor = 0
			}
			if share > limit/2-near || total*limit/100 < fewSamples+near || p.idle {
				coldFor = 0
			}
			if hotFor > soon && sinceCold == 0 && !p.idle {
				return fmt.Errorf("no event %v after %v %% were reached, with %.0f samples", hotFor, limit, total)
			}
			if coldFor > soon {
				sinceCold = 0
			}
		}
	}
	return nil
}

// TestSharesGoOn: a session of the same map, with a window, knows what was hot before.
func TestSharesGoOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		raised := map[string]int{}
		leaf := "first"
		s := newSessionOf(ccmap.Options{Seed: 1, Window: time.Minute}, func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range 1000 {
				sample := stack(names, leaf, "root")
				sample.Time = monotonic()
				r.Push(sample)
				time.Sleep(10 * time.Millisecond)
			}
		})
		s.config.Hot = Thresholds{Method: Threshold{Percent: 10, Window: 30 * time.Second}}
		s.config.OnHot = func(e Event) { raised[s.config.Map.Names().At(e.Method).Name]++ }
		s.mustRun(t)
		leaf = "second"
		s.next().mustRun(t)
		if diff := cmp.Diff(map[string]int{"root": 1, "first": 1, "second": 1}, raised); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

// TestHotPathThatNeverComes: the log says which path has a name that the target never had, and which name is of
// several methods; the path is counted until that comes.
func TestHotPathThatNeverComes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		var paths []string
		s := newSession(func(_ context.Context, r *queue.Ring, names *ccmap.Names) {
			for range 100 {
				r.Push(stack(names, "pkg.leaf", "pkg.root"))
				time.Sleep(100 * time.Millisecond)
			}
			r.Push(stack(names, "other.leaf", "pkg.root"))
		})
		s.config.Hot.Paths = []HotPath{mustPath(t, "root > leaf = 10ms"), mustPath(t, "root > left = 10ms")}
		s.config.OnHot = func(e Event) { paths = append(paths, e.Path.String()+": "+s.config.Map.Names().At(e.Method).Name) }
		s.config.Logger = slog.New(slog.NewTextHandler(&log, nil))
		s.mustRun(t)
		if want := []string{"root > leaf: pkg.leaf"}; !slices.Equal(paths, want) {
			t.Errorf("events %q, want %q", paths, want)
		}
		for _, want := range []string{
			`msg="hot path was never counted" path="root > left" error="no method \"left\" in the profile"`,
			`msg="hot path is not counted" path="root > leaf" error="2 methods are called \"leaf\""`,
		} {
			if strings.Count(log.String(), want) != 1 {
				t.Errorf("the log lacks %s, or has it twice:\n%s", want, log.String())
			}
		}
	})
}

// TestThresholdText: what is printed is read back; all else is refused with what is allowed.
func TestThresholdText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Threshold{
		"0": {}, "10s": {Time: 10 * time.Second}, "1h": {Time: time.Hour}, "1%/10m": {Percent: 1, Window: 10 * time.Minute},
		"0.25%/1h30m": {Percent: 0.25, Window: 90 * time.Minute}, "100%/1ms": {Percent: 100, Window: time.Millisecond},
	} {
		var got Threshold
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want || got.String() != text {
			t.Errorf("%q is %+v, printed %q: %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "x", "-1s", "1%", "1%/", "%/10m", "0%/10m", "101%/10m", "-1%/10m", "NaN%/10m", "Inf%/10m", "1%/-10m", "1%/0s", "10s/1%"} {
		got := Threshold{Time: 1}
		if err := got.UnmarshalText([]byte(text)); err == nil || !strings.Contains(err.Error(), "1%/10m") || got.Time != 1 {
			t.Errorf("%q is %+v: %v", text, got, err)
		}
	}
}

func TestHotPathText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]HotPath{
		"A > B":              {Path: query.Path{{Name: "A"}, {Name: "B"}}},
		"A:12 > B = 10s":     {query.Path{{Name: "A", Line: 12}, {Name: "B"}}, Threshold{Time: 10 * time.Second}},
		"operator= = 1%/10m": {query.Path{{Name: "operator="}}, Threshold{Percent: 1, Window: 10 * time.Minute}},
	} {
		var got HotPath
		if err := got.UnmarshalText([]byte(text)); err != nil || !cmp.Equal(got, want) || got.String() != text {
			t.Errorf("%q is %+v, printed %q: %v", text, got, got, err)
		}
	}
	for _, text := range []string{"", "A >", "A = x", "A > B = ", " = 10s", "A > B:3"} {
		var got HotPath
		if err := got.UnmarshalText([]byte(text)); err == nil || !cmp.Equal(got, HotPath{}) {
			t.Errorf("%q is %+v", text, got)
		}
	}
}

// TestThresholdsOfPaths: a path without a threshold has that of methods, or 1 % of ten minutes.
func TestThresholdsOfPaths(t *testing.T) {
	t.Parallel()
	own, method := Threshold{Time: time.Second}, Threshold{Time: time.Minute}
	paths := []HotPath{{Threshold: own}, {}}
	if got := (Thresholds{Method: method, Paths: paths}).ofPaths(); !slices.Equal(got, []Threshold{own, method}) {
		t.Errorf("beside methods: %v", got)
	}
	if got := (Thresholds{Paths: paths}).ofPaths(); !slices.Equal(got, []Threshold{own, defaultHeat}) {
		t.Errorf("alone: %v", got)
	}
}

func TestBadThresholdsAreRefused(t *testing.T) {
	t.Parallel()
	for name, hot := range map[string]Thresholds{
		"both":           {Method: Threshold{Time: 1, Percent: 1, Window: 1}},
		"without window": {Edge: Threshold{Percent: 1}},
		"not a number":   {Edge: Threshold{Percent: math.NaN(), Window: 1}},
		"negative":       {Edge: Threshold{Time: -1}},
		"of a path":      {Paths: []HotPath{{Path: query.Path{{Name: "a"}}, Threshold: Threshold{Window: 1}}}},
		"an empty path":  {Paths: []HotPath{{}}},
	} {
		c := Config{Source: newHosted(), Hot: hot, OnHot: func(Event) {}}
		if _, err := New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
