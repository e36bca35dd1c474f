package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/view"
)

// TestReportBeginsWithCaution: the report and top of a file say it first, once.
func TestReportBeginsWithCaution(t *testing.T) {
	t.Parallel()
	snapshot := profiletest.Blind("", 200, ccmap.Method{Name: ccmap.UnknownName}).Snapshot()
	file := filepath.Join(t.TempDir(), "a.json")
	if err := export.WriteFile(file, snapshot); err != nil {
		t.Fatal(err)
	}
	s := &session{flags: newSamplingFlags(nil), chosen: chosen{name: "fake", source: &fakeSource{}}}
	s.flags.until.Goal = manager.Goal{Of: manager.Edges, Percent: 95}
	var report bytes.Buffer
	if err := s.report(&report, manager.Report{Snapshot: snapshot, Written: []string{file}}); err != nil {
		t.Fatal(err)
	}
	top := runEngines(t, nil, "top", file)
	for _, text := range []string{report.String(), top.stdout} {
		if !strings.HasPrefix(text, "warning: this profile misleads") || strings.Count(text, "misleads") != 1 || strings.Contains(text, "settled: ") {
			t.Errorf("does not begin with one warning, or is settled:\n%s", text)
		}
	}
	if text := report.String(); !strings.Contains(text, "Edges were to settle to 95 %: that says nothing") {
		t.Errorf("lacks why the goal was not reached:\n%s", text)
	}
	var got struct{ Profile view.ProfileJSON }
	if err := json.Unmarshal([]byte(runEngines(t, nil, "top", "--json", file).stdout), &got); err != nil || !got.Profile.Blind.Misleads {
		t.Errorf("JSON %+v, %v", got, err)
	}
}

func TestLiveLineClaimsNothing(t *testing.T) {
	t.Parallel()
	settled := ccmap.Settled{Methods: 99, Edges: 98, Contexts: 97}
	line := formatStatus(manager.Status{}, manager.Status{Settled: settled, Blind: ccmap.Blind{Unknown: 89.6}})
	if !strings.Contains(line, "MISLEADS: unknown 90%, truncated 0%") || strings.Contains(line, "settled") {
		t.Errorf("live line %q", line)
	}
}
