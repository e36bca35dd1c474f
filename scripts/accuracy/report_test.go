package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

func TestNeeded(t *testing.T) {
	t.Parallel()
	if got, want := needed(2.5e6), "> 1 million"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Text written by hand stays, and a report on no runs is an error.
func TestReportKeepsWhatIsWrittenByHand(t *testing.T) {
	t.Parallel()
	c := config{Campaign: campaign.Campaign{Work: t.TempDir(), Quick: true}, runs: 2}
	c.Report = filepath.Join(c.Work, "REPORT.md")
	if _, err := analyze(c); err == nil {
		t.Error("no error without runs")
	}
	if err := os.WriteFile(c.Report, []byte(nativePortion.Replaced("By hand.\n", "old figures")), 0o644); err != nil {
		t.Fatal(err)
	}
	runs, err := agree([]*ccmap.Snapshot{sampled(300, 1), sampled(300, 2)})
	if err != nil {
		t.Fatal(err)
	}
	r := &results{config: c, at: map[string]map[string]agreement{tenMillis: {"int32": runs}}}
	if err := writeReport(c, r); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(c.Report)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "By hand.\n\n"+nativePortion.Begin()) || strings.Contains(s, "old figures") || !strings.Contains(s, "| int32 | 99 | 97 |") {
		t.Errorf("wrote\n%s", s)
	}
	// With -table the rest stays.
	c.table = true
	other, err := agree([]*ccmap.Snapshot{sampled(300, 1), sampled(300, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := writeReport(c, &results{config: c, at: map[string]map[string]agreement{oneMilli: {"stringbuilder": other}}}); err != nil {
		t.Fatal(err)
	}
	again, err := os.ReadFile(c.Report)
	if err != nil {
		t.Fatal(err)
	}
	before, after := strings.Split(string(text), tablePortion.Begin()), strings.Split(string(again), tablePortion.Begin())
	if after[0] != before[0] || strings.Contains(after[1], "| int32 |") || !strings.Contains(after[1], "| stringbuilder | 99 | 67 |") {
		t.Errorf("the table alone:\n%s", again)
	}
	if plots, _ := filepath.Glob(filepath.Join(c.Work, plotFolder, "*.svg")); len(plots) != int(allKinds)+2 {
		t.Errorf("%d plots", len(plots))
	}
}
