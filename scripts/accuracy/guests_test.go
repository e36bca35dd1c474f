package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

func TestMain(m *testing.M) {
	tests := testrun.Guard(m)
	if serveIfAsked() {
		return
	}
	os.Exit(tests.Run())
}

// A campaign on guests finds the activity of one, and writes its portion alone. CI runs the quick
// campaign on another.
func TestGuestCampaign(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	if testing.Short() {
		t.Skip("builds and executes guests")
	}
	t.Parallel()
	c := config{Campaign: campaign.Campaign{Quick: true, Report: filepath.Join(t.TempDir(), "REPORT.md"), Log: io.Discard}, guestTime: 200 * time.Millisecond}
	if err := os.WriteFile(c.Report, []byte(nativePortion.Replaced("By hand.\n", "native")), 0o644); err != nil {
		t.Fatal(err)
	}
	r, err := measureGuests(t.Context(), c, []guests.Guest{guests.Queens(10)})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range r.guests {
		for _, s := range g.shaped {
			if s.time.samples == 0 || s.time.contexts.Percent == 0 || s.calls.tree == 0 {
				t.Errorf("%s every %v: nothing agrees: %+v", g.Name, s, s.time)
			}
			if c := s.clocked; c != nil && (c.inside == 0 || c.instructions.contexts.Percent < 50) {
				t.Errorf("%s every %v: the functions' time is not theirs: %+v", g.Name, s, c)
			}
		}
	}
	if err := writeGuests(c, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.Report)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, nativePortion.Replaced("By hand.\n", "native")) || !strings.Contains(s, "| go-queens | 10ms |") {
		t.Errorf("wrote\n%s", s)
	}
	if plots, _ := filepath.Glob(filepath.Join(filepath.Dir(c.Report), plotFolder, "guests-*.svg")); len(plots) != len(guestPlots) {
		t.Errorf("%d plots, want %d", len(plots), len(guestPlots))
	}
}

func TestPrefixesDoubleUpToTheWhole(t *testing.T) {
	t.Parallel()
	want := []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second}
	if diff := cmp.Diff(want, prefixes(64*time.Second)); diff != "" {
		t.Error(diff)
	}
}

func TestShapeNames(t *testing.T) {
	t.Parallel()
	if got := plainShape.String() + "; " + burstShape.String(); got != "10ms; 10ms, 64 × 1" {
		t.Error(got)
	}
}
