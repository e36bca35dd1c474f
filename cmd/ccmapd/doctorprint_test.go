package main

import (
	"testing"

	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestSummaryIsOneLine: a reason may have the lines of several errors.
func TestSummaryIsOneLine(t *testing.T) {
	t.Parallel()
	got := summary(engine.Diagnosis{Reason: "open ring: not permitted\nload program: no BTF"})
	if want := "open ring: not permitted; load program: no BTF"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
