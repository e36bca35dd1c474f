package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestAttachLearnsReceivers: the points of the file count the caught calls, and
// nothing that samples count.
func TestAttachLearnsReceivers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		flags  string
		report string
		bursts int64
	}{
		{"", "Receivers: 250 calls caught at 1 call site; 2 profile points in ", 250},
		{"--hits 7.5 --value-hash pext --janitor off", "Receivers: 7 calls caught at 1 call site; ", 7},
		{"--hits 0", "Receivers: no calls caught, as asked for (see ", 0},
	} {
		file := filepath.Join(t.TempDir(), "a.json")
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, append(strings.Fields(test.flags), "attach", "42", "-o", file)...)
		if r.code != exitOK || !strings.Contains(r.stdout, test.report) || !strings.Contains(r.stdout, "'ccmapd receivers "+file+"'") {
			t.Errorf("%q: %q, %q", test.flags, r.stdout, r.stderr)
			continue
		}
		m, _, err := export.ReadFile(file, export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[ccmap.Origin]int64{}
		for _, p := range m.Snapshot().Points() {
			if p.Callers == nil {
				counts[p.Origin] += p.Count
			}
		}
		if counts[ccmap.OriginBurst] != test.bursts || len(counts) > 1 {
			t.Errorf("%q: points count %v", test.flags, counts)
		}
	}
}

func TestAttachJSONHasValues(t *testing.T) {
	t.Parallel()
	r := runEngines(t, []engine.Engine{fakeEngine(false)}, "attach", "42", "-o", filepath.Join(t.TempDir(), "a.xml"), "--json", "--hits", "10")
	var got sessionJSON
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	want := valuesJSON{Caught: 10, Sites: 1, Points: 2, Bytes: got.Values.Bytes}
	if diff := cmp.Diff(want, got.Values); diff != "" || got.Values.Bytes == 0 {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// TestWhyNoCallsWereCaught: the reason is the source's, where it has one.
func TestWhyNoCallsWereCaught(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		hits   float64
		source sampler.Stats
		files  []string
		want   string
	}{
		{0, sampler.Stats{NoCalls: "switched off"}, nil, "no calls caught, as asked for; 2 profile points in 1 kB.\n"},
		{1, sampler.Stats{NoCalls: "debug registers are in use"}, nil, "no calls caught, because debug registers are in use; "},
		{1, sampler.Stats{}, nil, "no calls caught, as none of an interface method or function value was hot; "},
		{1, sampler.Stats{Counts: sampler.Counts{sampler.HotCalls: 3}}, nil, "no calls caught, as none was made while a breakpoint was set; "},
		{1, sampler.Stats{}, []string{"a.folded", "b c.pb.gz"}, "in 1 kB (see 'ccmapd receivers 'b c.pb.gz'').\n"},
		{1, sampler.Stats{}, []string{"a.folded.gz"}, "in 1 kB.\n"},
	} {
		s := &session{flags: newSamplingFlags(nil), chosen: engine.Choice{Source: &fakeSource{}}}
		s.flags.values.hits = test.hits
		var out bytes.Buffer
		s.reportValues(&out, manager.Report{Source: test.source, Written: test.files, Values: manager.ValueStats{Points: 2, Bytes: 500}})
		if !strings.HasPrefix(out.String(), "\nReceivers: ") || !strings.Contains(out.String(), test.want) {
			t.Errorf("%+v: %q", test, &out)
		}
	}
}

// TestReportOfNoCalls: where there was nothing to learn from, nothing is said.
func TestReportOfNoCalls(t *testing.T) {
	t.Parallel()
	s := &session{flags: newSamplingFlags(nil), chosen: engine.Choice{Source: &fakeSource{}}}
	var out bytes.Buffer
	s.reportValues(&out, manager.Report{})
	if out.Len() > 0 {
		t.Errorf("%q", &out)
	}
}

// TestReportOfRareCalls: a larger --max-memory is advised where it helps.
func TestReportOfRareCalls(t *testing.T) {
	t.Parallel()
	const made = "1,200 profile points of rare calls made room for others, and 30 calls with them"
	s := &session{flags: newSamplingFlags(nil), chosen: engine.Choice{Source: &fakeSource{}}}
	for memory, want := range map[byteSize]string{
		0:          made + ".\n",
		1024 * miB: made + ".\n",
		64 * miB:   made + ": a larger --max-memory keeps more.\n",
	} {
		s.flags.memory = memory
		var out bytes.Buffer
		s.reportValues(&out, manager.Report{Values: manager.ValueStats{Points: 1, Evicted: 1200, Lost: 30}})
		if !strings.HasSuffix(out.String(), want) {
			t.Errorf("--max-memory %v: %q, want %q in the end", memory, &out, want)
		}
	}
}
