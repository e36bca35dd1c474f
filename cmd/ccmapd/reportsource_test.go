package main

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

func TestReportMarks(t *testing.T) {
	t.Parallel()
	for want, stats := range map[string]sampler.Stats{
		"":                                 {Marks: 1234, Samples: 1230},
		"\n12 marks of 1,234 came late.\n": {Marks: 1234, Late: 12},
		"\n1 thread could not be walked, and sampled no more; 2 threads ended without a word.\n": {Panicked: 1, Abandoned: 2},
		"\n1 mark of 9 came late; 3 threads reached no safe point for a second or more.\n":       {Marks: 9, Late: 1, Unsafe: 3},
	} {
		var out strings.Builder
		reportMarks(&out, stats)
		if out.String() != want {
			t.Errorf("report of %+v is %q, want %q", stats, &out, want)
		}
	}
}

func TestReportRecalled(t *testing.T) {
	t.Parallel()
	for want, stats := range map[string]sampler.Stats{
		"": {Samples: 1234, Foreign: 40},
		"\nCallers of 1,012 samples in C are those of the goroutine's last such call.\n": {Samples: 9000, Foreign: 2000, Recalled: 1012},
	} {
		s := &session{flags: newSamplingFlags(nil), chosen: chosen{name: "fake", source: &fakeSource{}}}
		var out bytes.Buffer
		if err := s.report(&out, manager.Report{Snapshot: profiletest.Blind("", 0).Snapshot(), Source: stats}); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, want) || want == "" && strings.Contains(got, "Callers of") {
			t.Errorf("report of %+v lacks %q:\n%s", stats, want, got)
		}
	}
}

// TestUnits: what the weight of samples is follows from the profile's unit, whatever
// the engine is called.
// insideOf returns what opens a source that samples this process.
func insideOf(name string) opener {
	return func(s sampling) (chosen, error) {
		return chosen{source: &fakeSource{attachment: attachment{42, s}}, name: name, why: "a test", embedded: true}, nil
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
		if text := stderr.String(); strings.Contains(text, "kernel") || strings.Contains(text, "breakpoint") {
			t.Errorf("%s: %s", name, text)
		}
		if got := s.newSessionJSON(r); got.Source.Inside == nil || !got.Source.KernelTime {
			t.Errorf("source as JSON: %+v", got.Source)
		}
	}
}
