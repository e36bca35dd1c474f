package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// suiteOf returns results of guests that take a tuned share of 1 s more than plain.
func suiteOf(shares ...float64) []guestCost {
	var all []guestCost
	for i, share := range shares {
		c := guestCost{
			name:   string(rune('a' + i)),
			slices: make(map[string][]float64), around: map[string]float64{suitePlain.name: 1, suiteAgain.name: 1, suiteTuned.name: 1.5, suiteShortest.name: 1.5},
			intervals: []time.Duration{50 * time.Millisecond, 12_500 * time.Microsecond},
			samples:   map[string]float64{suiteTuned.name: 100, suiteShortest.name: 2100},
		}
		for turn := range 8 {
			speed := 1 + float64(turn)/8 // the machine becomes slower, and the pairs do not show it
			for _, w := range suiteWays {
				took := speed
				if w == suiteTuned || w == suiteShortest {
					took *= 1 + share
				}
				if w == suiteShortest {
					took += 0.01 // 5 µs for each of 2,000 samples more
				}
				c.slices[w.name] = append(c.slices[w.name], took)
			}
		}
		all = append(all, c)
	}
	return all
}

// The suite's figure is that of all guests together: what one gains pays for another.
func TestSuiteCountsAllGuestsTogether(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		shares  []float64
		added   string
		verdict string
	}{
		{[]float64{-0.10, 0.14}, "+2.0 (+2.0 to +2.0)", "yes"},
		{[]float64{-0.10, 0.18}, "+4.0 (+4.0 to +4.0)", "**no**"},
		{[]float64{0, 0}, "0.0 (0.0 to 0.0)", "yes"},
	} {
		all := suiteOf(c.shares...)
		tuned := together(all, suiteTuned)
		if got := tuned.String(); got != c.added {
			t.Errorf("%v: %s %% more, want %s", c.shares, got, c.added)
		}
		if got := verdict(tuned, tuned.Middle); got != c.verdict {
			t.Errorf("%v: verdict %s, want %s", c.shares, got, c.verdict)
		}
		if got := together(all, suiteAgain).Middle; got != 0 {
			t.Errorf("%v: plain differs from itself by %v %%", c.shares, got)
		}
	}
	// 2 guests: 23 s of slices and 2 s around; tuned takes 2 % more of the first and 1 s more around.
	if got := signed(whole(suiteOf(-0.10, 0.14), suiteTuned)); got != "+5.8" {
		t.Errorf("with compiling: %s", got)
	}
	if got := verdict(percentage{0, 1, 2}, 5.8); got != "**no**" {
		t.Errorf("compiling does not count: %s", got)
	}
	if got := verdict(percentage{0, 2, 4}, 2); got != "yes, within the error" {
		t.Errorf("beyond the error: %s", got)
	}
}

func TestSuiteReport(t *testing.T) {
	t.Parallel()
	r := &suiteResults{config: config{pairs: 8}, began: time.Now(), times: [][]guestCost{suiteOf(-0.10, 0.14), suiteOf(-0.08, 0.18)}}
	text := r.report()
	for _, want := range []string{
		"| a | 0.0 (0.0 to 0.0) | −10.0 (−10.0 to −10.0) | −8.0 (−8.0 to −8.0) | 50ms → 12.5ms | 800 | −9.3 (−9.5 to −9.0) | 5.0 | 1.00 | 1.50 |\n",
		"| all together | ", " | 5.0 (5.0 to 5.0) | 2.00 | 3.00 |\n", "| all, with compiling and end | 0.0 |",
		"The suite, run 1: +2.0 (+2.0 to +2.0) % while guests run, +5.8 % with compiling and the profile's end; at most 3 %: **no**.",
		"The suite, run 2: +5.0 ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

// A quick campaign runs a guest in processes of all ways, and writes its portion alone.
func TestSuiteCampaign(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	if testing.Short() { // four minutes under the race detector, and the processes that sample are not under it
		t.Skip("measures for a minute")
	}
	t.Parallel()
	c := config{Campaign: campaign.Campaign{Quick: true, Report: filepath.Join(t.TempDir(), "REPORT.md"), Log: io.Discard}, pairs: 2}
	if err := os.WriteFile(c.Report, []byte("By hand.\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := measureSuite(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for _, all := range r.times {
		g := all[0]
		// 50 ms can pass without a sample in so short a run.
		if g.samples[suiteShortest.name] == 0 || g.samples[suiteShortest.name] < g.samples[suiteTuned.name] || len(g.intervals) == 0 || g.intervals[0] != suiteTuned.interval {
			t.Errorf("%v samples, intervals %v: the guest was not sampled", g.samples, g.intervals)
		}
		for _, w := range suiteWays {
			if len(g.slices[w.name]) != c.pairs || g.slices[w.name][0] <= 0 || g.around[w.name] <= 0 {
				t.Errorf("%s: %v and %v s", w.name, g.slices[w.name], g.around[w.name])
			}
		}
	}
	if err := c.Write(suitePortion, r.report()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.Report)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "By hand.\n\n"+suitePortion.Begin()) || !strings.Contains(s, "| go-eval |") {
		t.Errorf("wrote\n%s", s)
	}
}

// A process of the suite refuses what it does not know, and does not wait for its input.
func TestSuiteProcessRefuses(t *testing.T) {
	t.Parallel()
	for _, named := range []string{"", "0", "0 never", "-1 plain", "99 plain"} {
		if err := serveSuite(t.Context(), named, strings.NewReader(""), io.Discard); err == nil {
			t.Errorf("%q: no error", named)
		}
	}
}
