package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

func TestReportTroubles(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]sampler.Counts{
		"":                                 {sampler.Marks: 1234, sampler.Samples: 1230},
		"\n12 marks of 1,234 came late.\n": {sampler.Marks: 1234, sampler.LateMarks: 12},
		"\n1 thread could not be walked, and sampled no more; 2 threads ended without a word.\n": {sampler.Panicked: 1, sampler.Abandoned: 2},
		"\n1 mark of 9 came late; 3 threads reached no safe point for a second or more.\n":       {sampler.Marks: 9, sampler.LateMarks: 1, sampler.Unsafe: 3},
	} {
		var out strings.Builder
		reportTroubles(&out, counts)
		if out.String() != want {
			t.Errorf("report of %v is %q, want %q", counts, &out, want)
		}
	}
}

func TestReportRecalled(t *testing.T) {
	t.Parallel()
	for want, counts := range map[string]sampler.Counts{
		"": {sampler.Samples: 1234, sampler.Foreign: 40},
		"\nCallers of 1,012 samples in C are those of the goroutine's last such call.\n": {sampler.Samples: 9000, sampler.Foreign: 2000, sampler.Recalled: 1012},
	} {
		s := &session{flags: newSamplingFlags(nil), chosen: engine.Choice{Source: &fakeSource{}}}
		var out bytes.Buffer
		if err := s.report(&out, manager.Report{Snapshot: profiletest.Blind("", 0).Snapshot(), Source: sampler.Stats{Counts: counts}}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || want == "" && strings.Contains(got, "Callers of") {
			t.Errorf("report of %v lacks %q:\n%s", counts, want, got)
		}
	}
}

// TestUnits: what the weight of samples is follows from the profile's unit, whatever
// the engine is called.
// insideOf returns what opens a source that samples this process.
func insideOf(name string) opener {
	return func(o sampler.ProcessOptions) (engine.Choice, error) {
		o.PID = 42
		return engine.Choice{Source: &fakeSource{ProcessOptions: o, engine: name, embedded: true}, Why: "a test"}, nil
	}
}

// TestSessionInThisProcess: nothing is said of kernels and breakpoints, and nobody
// knows what ccmapd itself used.
func TestSessionInThisProcess(t *testing.T) {
	t.Parallel()
	f := newSamplingFlags(nil)
	f.outputs = []string{t.TempDir() + "/a.json"}
	for _, name := range []string{wasm.SamplingEngine, wasm.ExactEngine} {
		var stderr bytes.Buffer
		s, err := openSession(&environment{stderr: &stderr}, f, insideOf(name))
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.run(t.Context(), io.Discard, io.Discard)
		if err != nil || r.CPU != 0 {
			t.Errorf("%v of CPU time, %v", r.CPU, err)
		}
		if err := s.report(&stderr, r); err != nil {
			t.Fatal(err)
		}
		if got := s.newSessionJSON(r).Source; !got.Embedded || got.NoKernelTime != "" {
			t.Errorf("source as JSON: %+v", got)
		}
		if text := stderr.String(); strings.Contains(text, "kernel") || strings.Contains(text, "breakpoint") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// TestSourceJSON holds the members of a source and their order: each counter has one.
func TestSourceJSON(t *testing.T) {
	t.Parallel()
	var s sourceJSON
	for c := range sampler.NumCounters {
		s.Counts[c] = uint64(c)
	}
	s.NoCalls, s.NoKernelTime = "<none>", "not permitted"
	for want, embedded := range map[string]bool{
		`{"samples":0,"repaired":1,"rooted":2,"truncated":3,"kernel":4,"foreign":5,"recalled":6,"probed":7,"probes":8,` +
			`"kernel_time":false,"hits":9,"bursts":11,"hit_sites":12,"hit_reason":"<none>"}` + "\n": false,
		`{"samples":0,"repaired":1,"rooted":2,"truncated":3,"kernel":4,"foreign":5,"recalled":6,"probed":7,"probes":8,` +
			`"kernel_time":false,"hits":9,"bursts":11,"hit_sites":12,"hit_reason":"<none>",` +
			`"inside":{"marks":13,"late":14,"unsafe":15,"panicked":16,"abandoned":17}}` + "\n": true,
	} {
		s.Embedded = embedded
		var got strings.Builder
		enc := json.NewEncoder(&got)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(s); err != nil || got.String() != want {
			t.Errorf("%v\n%s\nwant:\n%s", err, &got, want)
		}
	}
}
