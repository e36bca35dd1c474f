package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/perf"
	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/testdata/recorded"
)

// recordStacks writes all samples of a process, in the format of [recorded.Read].
func recordStacks(w io.Writer, pid int, duration, interval time.Duration) error {
	var samples []ccmap.Sample
	var names *ccmap.Names
	source, err := sample(perf.Options{PID: pid, Interval: interval, Watchpoints: 4}, duration, func(s *ccmap.Sample, n *ccmap.Names) {
		kept := *s
		kept.Frames = slices.Clone(s.Frames)
		samples, names = append(samples, kept), n
	})
	switch {
	case err != nil:
		return err
	case names == nil:
		return fmt.Errorf("no samples: process %d used no CPU time", pid)
	}
	slices.SortStableFunc(samples, func(a, b ccmap.Sample) int { return cmp.Compare(a.Time, b.Time) })
	return recorded.Write(w, stacksHeader(source), names, samples)
}

func stacksHeader(source *perf.Source) recorded.Header {
	t := source.Info().Target
	return recorded.Header{
		Command:  shortened(commandLine(t)),
		Target:   t.Runtime,
		Kernel:   report.Kernel(),
		Date:     time.Now().UTC().Format(time.DateOnly),
		Interval: source.Stats().Interval.String(),
	}
}

// shortened returns a text, or its beginning: a compiler's command line names
// every file of a package.
func shortened(text string) string {
	const most = 200
	if len(text) <= most {
		return text
	}
	return text[:most] + "…"
}
