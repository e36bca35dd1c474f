package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// writeReport replaces what was written on the last campaign, and draws the plots.
func writeReport(c config, r *results) error {
	if err := nativePortion.rewrite(c.report, r.report()); err != nil {
		return err
	}
	return r.writePlots(filepath.Join(filepath.Dir(c.report), plotFolder))
}

// report returns the part that is not written by hand.
func (r *results) report() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## The runs\n\nMeasured %s: %s, %d CPUs, Linux %s, %s. All runs together took %s; the load average was %s (median), the runs' own load of about 2 in it.\n",
		r.last.UTC().Format(time.DateOnly), processor(), runtime.NumCPU(), kernel(), runtime.Version(), inSeconds(r.seconds), number(r.load, 1))
	for _, section := range []func() string{
		r.tableSection, r.tuningSection, r.costSection, r.sizeSection, r.shorterSection, r.floorSection, r.coverageSection,
	} {
		b.WriteString("\n" + section())
	}
	return b.String()
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}

func kernel() string {
	release, err := exec.Command("uname", "-r").Output()
	if err != nil {
		return "of unknown release"
	}
	return string(bytes.TrimSpace(release))
}
