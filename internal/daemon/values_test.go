package daemon

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/valueprof"
)

// The keys of value tables reach the manager, and a dump is lines of the log, whatever a
// program has named its functions.
func TestValuesOf(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(slog.NewTextHandler(&text, nil))
	if o := valuesOf(config.Default().Defaults, log); o.Hash != valueprof.HashAuto || o.Policy != valueprof.PolicyDecay || o.Dump != nil || o.Off {
		t.Errorf("defaults: %+v", o)
	}
	o := valuesOf(config.Settings{ValueHash: valueprof.HashPext, Janitor: valueprof.PolicyReset, DumpValues: true}, log)
	if o.Hash != valueprof.HashPext || o.Policy != valueprof.PolicyReset {
		t.Errorf("%+v", o)
	}
	if n, err := o.Dump.Write([]byte("table full site=main.f:3\x1b[2J\nx\n")); n != 31 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	if got := text.String(); strings.Count(got, "\n") != 1 || strings.Contains(got, "\x1b") || !strings.Contains(got, `msg="value table" event="table full site=main.f:3`) {
		t.Errorf("log: %q", got)
	}
}
