package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestLoss(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		meta ccmap.Meta
		want []string
	}{
		{ccmap.Meta{}, nil},
		{ccmap.Meta{Engine: "managed"}, []string{"no sample lost"}},
		{ccmap.Meta{Loss: ccmap.Loss{Clock: 1000, Unaccounted: 4}}, []string{"none lost, 0.4% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Clock: 10000, Unaccounted: -4}}, []string{"none lost, 0.0% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Source: 3, Clock: 1000, Unaccounted: -25}}, []string{"3 samples lost (75.0%), -2.5% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Source: 2, Queue: 1, Throttled: 1}}, []string{"3 samples lost (75.0%)", "throttled 1 time"}},
	} {
		if diff := cmp.Diff(test.want, loss(test.meta, 1)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.meta, diff)
		}
	}
}

func TestUnaccountedTimeIsAWarning(t *testing.T) {
	t.Parallel()
	const interval = 10 * time.Millisecond
	for _, test := range []struct {
		samples int64
		loss    ccmap.Loss
		want    string
	}{
		{1000, ccmap.Loss{}, ""},
		{97, ccmap.Loss{Clock: time.Second, Unaccounted: 30 * time.Millisecond}, ""}, // 3 %, of too few samples
		{41, ccmap.Loss{Clock: 3370 * time.Millisecond, Unaccounted: 2960 * time.Millisecond}, "no sample stands for 87.8% of the CPU time (2.96s of 3.37s): " +
			"threads were shorter than the interval or not sampled, or ccmapd or the machine was held up"},
		{0, ccmap.Loss{Clock: time.Second, Unaccounted: time.Second}, "no sample stands for 100.0% of the CPU time (1s of 1s): " +
			"threads were shorter than the interval or not sampled, or ccmapd or the machine was held up"},
		{500, ccmap.Loss{Clock: 4 * time.Second, Unaccounted: -time.Second}, "samples stand for 25.0% more CPU time than the program used (4s)"},
	} {
		p := withMeta(t, profileOf("a.json", test.samples, interval), func(m *ccmap.Meta) { m.Loss = test.loss })
		if got := p.unaccounted(); got != test.want {
			t.Errorf("%d samples, %+v: %q, want %q", test.samples, test.loss, got, test.want)
		}
		warned := strings.Contains(p.describe(), "\nwarning: "+test.want)
		if noted := len(caveats([]*profile{p, profileOf("b.json", 1000, interval)}, "time")) > 0; warned != (test.want != "") || noted != warned {
			t.Errorf("%d samples, %+v: warned %t, noted %t", test.samples, test.loss, warned, noted)
		}
	}
}

// withMeta returns a copy of a profile with another description.
func withMeta(t *testing.T, p *profile, change func(*ccmap.Meta)) *profile {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	if err := m.Merge(p.Snapshot); err != nil {
		t.Fatal(err)
	}
	change(m.Meta())
	return newProfile(p.path, m.Snapshot())
}

func TestWarningsOfASourceAreShown(t *testing.T) {
	t.Parallel()
	p := withMeta(t, profileOf("a.json", 1000, time.Millisecond), func(m *ccmap.Meta) {
		m.Comments = []string{"engine perf: the best", "warning: 38 of 64 threads\x1b", "warning: b"}
	})
	if got := p.describe(); !strings.HasSuffix(got, "\nwarning: 38 of 64 threads\ufffd\nwarning: b") {
		t.Errorf("described as %q", got)
	}
	p = withMeta(t, p, func(m *ccmap.Meta) {
		m.Comments = append(m.Comments, "warning: c", "warning: d", "warning: e", "warning: f")
	})
	if got := p.describe(); !strings.HasSuffix(got, "\nwarning: d\nwarning: and 2 more") {
		t.Errorf("described as %q", got)
	}
}
