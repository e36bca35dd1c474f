package main

import (
	"math"
	"strings"
	"testing"
)

// The added cost is in the unit of the workload.
func TestAdded(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		w    workload
		want float64
	}{
		{workload{unit: percent}, 25},
		{workload{unit: nanoseconds}, 1000},
		{workload{unit: microsecondsASample, hz: 5000}, 40}, // a fifth of each second, 5,000 samples
	} {
		if got := c.w.added(4000, 5000); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", unitNames[c.w.unit], got, c.want)
		}
	}
}

// pairs returns a way with this many pairs, alternately half a unit above and below.
func pairs(name string, n int, added, cpu float64) *wayCost {
	w := &wayCost{name: name}
	for i := range n {
		w.added = append(w.added, added+float64(i%2)-0.5)
		w.round, w.cpu = append(w.round, i), append(w.cpu, cpu+0.01*float64(i%2))
	}
	return w
}

// A goal is met when the upper end of the interval is under it and the width.
func TestJudge(t *testing.T) {
	t.Parallel()
	c := costs{workload: workload{name: "server", unit: percent}, ways: []*wayCost{pairs(perfEvery, 40, 0.9, 0)}}
	for want, w := range map[string]*wayCost{
		"takes 10 pairs": pairs("ours", 9, 0, 0),
		"≤ 1 %: yes; ≤ " + perfEvery + ": yes; ≤ 0.5 % of a core: yes":          pairs("ours", 40, 1.0, 0.3),
		"≤ 1 %: **no**; ≤ " + perfEvery + ": **no**; ≤ 0.5 % of a core: **no**": pairs("ours", 40, 1.5, 0.6),
	} {
		if got := c.judge(w); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := (costs{workload: workload{name: "threads"}}).judge(pairs("ours", 40, 9, 9)); got != "" {
		t.Errorf("a workload without goals: %q", got)
	}
}

// Differences to another way are taken in the rounds that both have.
func TestOver(t *testing.T) {
	t.Parallel()
	ours := &wayCost{added: []float64{5, 7}, round: []int{0, 2}}
	theirs := &wayCost{added: []float64{1, 2, 3}, round: []int{0, 1, 2}}
	if got := ours.over(theirs, 2); len(got) != 2 || got[0] != 3 || got[1] != 1 {
		t.Errorf("%v, want 3 and 1", got)
	}
}

// A way is done after ten pairs, if no goal is about it or its mean is known well enough.
func TestDone(t *testing.T) {
	t.Parallel()
	b := &bench{engines: []engine{{name: "best"}}}
	wide := []float64{9, -9, 9, -9, 9, -9, 9, -9, 9, -9}
	for _, c := range []struct {
		workload string
		unit     unit
		way      *wayCost
		want     bool
	}{
		{"server", percent, pairs("best", 9, 0, 0), false},
		{"server", percent, pairs("best", 40, 0, 0), true},
		{"server", percent, &wayCost{name: "best", added: wide}, false},
		{"server", percent, &wayCost{name: again, added: wide}, false},
		{"server", percent, &wayCost{name: perfEvery, added: wide}, false},
		{"server", percent, &wayCost{name: perfAnchor, added: wide}, true},
		{"threads", percent, &wayCost{name: "best", added: wide}, true}, // it has no goal
		{"threads", percent, &wayCost{name: "best", added: wide[:9]}, false},
		{"switches", nanoseconds, &wayCost{name: "best", added: wide}, true},
	} {
		if got := b.done(workload{name: c.workload, unit: c.unit}, c.way); got != c.want {
			t.Errorf("%s, %s, %d pairs: %v, want %v", c.workload, c.way.name, len(c.way.added), got, c.want)
		}
	}
}

// The table has a row for each way, and goals for the best engine alone.
func TestCostTable(t *testing.T) {
	t.Parallel()
	best, other := pairs("best", 40, 0, 0), pairs("other", 40, 0, 0)
	all := []costs{{workload: workload{name: "switches", about: "two threads", unit: nanoseconds}, without: []float64{4000, 5000}, ways: []*wayCost{best, other}}}
	text := costTable([]engine{{name: "best"}, {name: "other"}}, all).String()
	if strings.Count(text, "\n") != 5 || strings.Count(text, "≤ 50 ns a switch: yes") != 1 || !strings.Contains(text, "4,500 ns CPU") {
		t.Errorf("the table is\n%s", text)
	}
}

// A help that names engines, one that names one twice, and one from before there was a
// flag.
func TestEnginesIn(t *testing.T) {
	t.Parallel()
	for help, want := range map[string]string{
		"  -d, --duration TIME   until perf ends\n":                                                     "ccmapd",
		"      --engine ENGINE   ENGINE to sample with: auto or perf; auto: the best\n":                 "ccmapd, perf",
		"      --engine ENGINE   auto, bpf or perf; perf where bpf is refused\n      --hits N   perf\n": "ccmapd, bpf|ccmapd, perf",
	} {
		var names []string
		for _, e := range enginesIn(help) {
			names = append(names, e.name)
		}
		if got := strings.Join(names, "|"); got != want {
			t.Errorf("%q: %s, want %s", help, got, want)
		}
	}
	if got := withoutVerdicts("      --watchpoints N   use N\n"); got != "--watchpoints=0" {
		t.Errorf("the flag without verdicts is %q", got)
	}
}
