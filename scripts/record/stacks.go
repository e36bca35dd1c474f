package main

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/perf"
	"github.com/ccmapd/ccmapd/testdata/recorded"
)

// recordStacks writes all samples of a process, in the format of [recorded.Read].
func recordStacks(w io.Writer, pid int, duration, interval time.Duration) error {
	q, names := queue.New(queue.Options{}), ccmap.NewNames()
	source, err := perf.Open(context.Background(), perf.Options{
		PID:         pid,
		Sink:        sampler.Sink{Queue: q, Names: names},
		Interval:    interval,
		Watchpoints: 4,
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	var samples []ccmap.Sample
	err = drain(ctx, source, q, func(s *ccmap.Sample) {
		kept := *s
		kept.Frames = slices.Clone(s.Frames)
		samples = append(samples, kept)
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(samples, func(a, b ccmap.Sample) int { return cmp.Compare(a.Time, b.Time) })
	return recorded.Write(w, stacksHeader(source), names, samples)
}

func stacksHeader(source *perf.Source) recorded.Header {
	t := source.Info().Target
	return recorded.Header{
		Command:  shortened(commandLine(t)),
		Target:   t.Runtime,
		Kernel:   kernel(),
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
