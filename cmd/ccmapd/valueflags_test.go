package main

import (
	"bytes"
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/valueprof"
)

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
