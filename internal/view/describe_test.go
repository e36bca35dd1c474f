package view

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
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
		{ccmap.Meta{Loss: ccmap.Loss{Clock: 1e6, Unaccounted: 0}}, []string{"none lost, 0.0% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Clock: 1e9, Unaccounted: -4e5}}, []string{"none lost, 0.0% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Clock: 1e6, Unaccounted: -2900}}, []string{"none lost, none unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Clock: 1e6, Unaccounted: 2900}}, []string{"none lost, 0.3% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Source: 3, Clock: 1e6, Unaccounted: -25000}}, []string{"3 samples lost (75.0%), -2.5% unaccounted"}},
		{ccmap.Meta{Loss: ccmap.Loss{Source: 2, Queue: 1, Throttled: 1}}, []string{"3 samples lost (75.0%)", "throttled 1 time"}},
	} {
		if diff := cmp.Diff(test.want, loss(test.meta, ccmap.Counters{Samples: 1, Time: 1})); diff != "" {
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
		warned := strings.Contains(p.describe(true), "\nwarning: "+test.want)
		if noted := len(caveats([]*Profile{p, profileOf("b.json", 1000, interval)}, compare.ByTime)) > 0; warned != (test.want != "") || noted != warned {
			t.Errorf("%d samples, %+v: warned %t, noted %t", test.samples, test.loss, warned, noted)
		}
	}
	p := withMeta(t, profileOf("a.json", 100, interval), func(m *ccmap.Meta) {
		m.Engine, m.Loss = "pprofhttp", ccmap.Loss{Clock: 3 * time.Second, Unaccounted: 2 * time.Second}
	})
	if got := p.unaccounted(); got != "no sample stands for 66.7% of the CPU time (2s of 3s): the program's own profiler rests most of the time, so that others can use it" {
		t.Errorf("between two profiles: %q", got)
	}
	p = withMeta(t, p, func(m *ccmap.Meta) {
		m.Engine, m.Comments = "jfr", []string{ccmap.CommentUnaccounted + "another one\x1b"}
	})
	if got := p.unaccounted(); got != "no sample stands for 66.7% of the CPU time (2s of 3s): another one\uFFFD" {
		t.Errorf("with a cause that the engine knows: %q", got)
	}
}

// withMeta returns a copy of a profile with another description.
func withMeta(t *testing.T, p *Profile, change func(*ccmap.Meta)) *Profile {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	if err := m.Merge(p.Snapshot); err != nil {
		t.Fatal(err)
	}
	change(m.Meta())
	return New(p.Path, m.Snapshot())
}

func TestWarningsOfASourceAreShown(t *testing.T) {
	t.Parallel()
	p := withMeta(t, profileOf("a.json", 1000, time.Millisecond), func(m *ccmap.Meta) {
		m.Comments = []string{"engine perf: the best", "warning: 38 of 64 threads\x1b", "warning: b"}
	})
	if got := p.describe(true); !strings.HasSuffix(got, "\nwarning: 38 of 64 threads\ufffd\nwarning: b") {
		t.Errorf("described as %q", got)
	}
	p = withMeta(t, p, func(m *ccmap.Meta) {
		m.Comments = append(m.Comments, "warning: c", "warning: d", "warning: e", "warning: f")
	})
	if got := p.describe(true); !strings.HasSuffix(got, "\nwarning: d\nwarning: and 2 more") {
		t.Errorf("described as %q", got)
	}
}

func TestUnits(t *testing.T) {
	t.Parallel()
	for unit, want := range map[ccmap.Unit]string{
		ccmap.CPUTime:                         "1 sample, 1.2s of CPU time",
		ccmap.Instructions:                    "1 sample, 1,200,000,000 instructions",
		ccmap.NewUnit("alloc_space", "bytes"): "1 sample, 1.2GB of alloc_space",
		ccmap.NewUnit("delay", "nanoseconds"): "1 sample, 1.2s of delay",
		ccmap.NewUnit("heat", "joules"):       "1 sample, 1,200,000,000 joules of heat",
		ccmap.NewUnit("\x1b[1m", "count"):     "1 sample, 1,200,000,000 \ufffd[1m",
	} {
		m := ccmap.New(ccmap.Options{})
		m.Meta().Engine, m.Meta().Unit = engineWasmExact, unit
		m.Fold(&ccmap.Sample{Weight: 1.2e9, Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: "f"})}}})
		p := New("file", m.Snapshot())
		if got := p.amount(); got != want {
			t.Errorf("%v: %s, want %s", unit, got, want)
		}
	}
}
