package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/session"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/valueprof"
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
	var got session.ReportJSON
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil {
		t.Fatalf("%v in %s", err, r.stdout)
	}
	values := got.Values
	values.Bytes = 0
	want := session.ReportJSON{}.Values
	want.Caught, want.Sites, want.Points = 10, 1, 2
	if diff := cmp.Diff(want, values); diff != "" || got.Values.Bytes == 0 {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

func TestOptionsOfValueFlags(t *testing.T) {
	t.Parallel()
	f := newValueFlags()
	if o := f.options(nil); o.Hash != valueprof.HashAuto || o.Policy != valueprof.PolicyDecay || o.Off || o.Dump != nil {
		t.Errorf("by default: %+v", o)
	}
	f.hash.Value, f.janitor.Value, f.dump = "shift", "reset", true
	var out bytes.Buffer
	if o := f.options(&out); o.Hash != valueprof.HashShift || o.Policy != valueprof.PolicyReset || o.Dump == nil {
		t.Errorf("of %+v: %+v", f, o)
	}
}

// TestDumpValues: the life of tables goes to standard error, whatever is reported.
func TestDumpValues(t *testing.T) {
	t.Parallel()
	polymorphic := engine.Engine{Name: "polymorphic", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
		return &fakeSource{ProcessOptions: a, targets: 4}, nil
	}}
	for flag, want := range map[string]bool{"": false, "--dump-values": true, "--dump-values -v": true, "--dump-values --json": true} {
		args := []string{"attach", "42", "-o", filepath.Join(t.TempDir(), "a.json")}
		r := runEngines(t, []engine.Engine{polymorphic}, append(args, strings.Fields(flag)...)...)
		if got := strings.Contains(r.stderr, "\ntable created site=main.main+1 "); got != want || r.code != exitOK {
			t.Errorf("with %q a table is told of: %v, want %v\n%s", flag, got, want, r.stderr)
		}
	}
}
