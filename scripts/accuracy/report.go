package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// What each of the two campaigns writes of the report.
const (
	nativePortion report.Portion = "scripts/accuracy, native programs"
	guestPortion  report.Portion = "scripts/accuracy, guests"
)

// writeReport replaces what was written on the last campaign, and draws the plots.
func writeReport(c config, r *results) error {
	if err := nativePortion.Rewrite(c.report, r.report()); err != nil {
		return err
	}
	return r.writePlots(filepath.Join(filepath.Dir(c.report), plotFolder))
}

// report returns the part that is not written by hand.
func (r *results) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## The runs\n\n%s All runs together took %s; the load average was %s (median), the runs' own load of about 2 in it.\n",
		report.Measured(r.last), report.Seconds(r.seconds), report.Number(r.load, 1))
	for _, section := range []func() string{
		r.tableSection, r.tuningSection, r.costSection, r.sizeSection, r.shorterSection, r.floorSection, r.coverageSection,
	} {
		b.WriteString("\n" + section())
	}
	return b.String()
}
