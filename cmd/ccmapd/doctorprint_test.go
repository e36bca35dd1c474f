package main

import (
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestSummaryIsOneLine: a reason may have the lines of several errors.
func TestSummaryIsOneLine(t *testing.T) {
	t.Parallel()
	got := summary(engine.Diagnosis{Reason: "attach to process 4711: open ring: not permitted\nload program: no BTF"})
	if want := "open ring: not permitted; load program: no BTF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestReportIsNarrow: no line of a report is over 120 columns but commands, which are to be copied.
func TestReportIsNarrow(t *testing.T) {
	t.Parallel()
	long, cure := strings.Repeat("many words ", 30), strings.Repeat("command ", 20)
	var out strings.Builder
	err := printReport(&out, engine.Report{
		Code: engine.CodeNotPermitted, Reason: "bpf: " + long + "\nperf: " + long,
		Checks:  []engine.Check{{Name: "files", Found: long, Wanted: long, Cure: cure}},
		Engines: []engine.Diagnosis{{Engine: "bpf", Reason: long, Note: long, Cure: cure}},
	}, false)
	if exitCode(err) != exitPermission || strings.Contains(err.Error(), "many words") {
		t.Errorf("the reasons again: %v", err)
	}
	for line := range strings.Lines(out.String()) {
		if isCure := strings.Contains(line, "cure: "); len(line) > mostColumns+1 && !isCure || isCure && !strings.Contains(line, cure) {
			t.Errorf("%d columns: %s", len(line), line)
		}
	}
	if got := strings.Count(out.String(), "many"); got != 4*30 {
		t.Errorf("%d words of %d:\n%s", got, 4*30, &out)
	}
	var cut strings.Builder
	printFolded(terminal.NewPrinter(&cut, false), strings.Repeat("x", 200))
	if cut.String() != strings.Repeat("x", 200)+"\n" {
		t.Errorf("a long word: %q", &cut)
	}
}
