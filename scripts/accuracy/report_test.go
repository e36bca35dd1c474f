package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestNumbers(t *testing.T) {
	t.Parallel()
	for got, want := range map[string]string{
		number(1234567.891, 2):                  "1,234,567.89",
		number(-1234, 0):                        "-1,234",
		number(-123, 0):                         "-123",
		number(math.NaN(), 1):                   "–",
		count(123456):                           "123,000",
		count(99.6):                             "100",
		count(math.Inf(1)):                      "–",
		needed(2.5e6):                           "> 1 million",
		inSeconds(4.44):                         "4.4 s",
		inSeconds(300):                          "5 min",
		inSeconds(9000):                         "2.5 h",
		steps([]time.Duration{5e7, 12_512_345}): "50ms → 12.51ms",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	got := (&table{head: []string{"program", "samples"}, rows: [][]string{{"int32", "400"}}}).String()
	want := "| program | samples |\n| --- | ---: |\n| int32 | 400 |\n"
	if got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is written by hand stays, and a report on no runs is an error.
func TestReportKeepsWhatIsWrittenByHand(t *testing.T) {
	t.Parallel()
	c := config{work: t.TempDir(), runs: 2, quick: true}
	c.report = filepath.Join(c.work, "ACCURACY.md")
	if _, err := analyze(c); err == nil {
		t.Error("no error without runs")
	}
	if err := os.WriteFile(c.report, []byte(nativePortion.replaced("By hand.\n", "old figures")), 0o644); err != nil {
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
	text, err := os.ReadFile(c.report)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "By hand.\n\n"+nativePortion.begin()) || strings.Contains(s, "old figures") || !strings.Contains(s, "| int32 | 99 | 97 |") {
		t.Errorf("wrote\n%s", s)
	}
	if plots, _ := filepath.Glob(filepath.Join(c.work, plotFolder, "*.svg")); len(plots) != int(allKinds)+2 {
		t.Errorf("%d plots", len(plots))
	}
}
