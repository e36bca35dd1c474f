package main

import (
	"cmp"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// recordStacks writes all samples of a process, in the format of package testdata/recorded.
func recordStacks(w io.Writer, pid int, duration, interval time.Duration) error {
	var samples []ccmap.Sample
	var names *ccmap.Names
	source, err := sample(sampler.ProcessOptions{PID: pid, Interval: interval, Watchpoints: 4}, duration, func(s *ccmap.Sample, n *ccmap.Names) {
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
	return writeStream(w, stacksHeader(source), names, samples)
}

func stacksHeader(source campaign.Source) streamHeader {
	t := source.Info().Target
	return streamHeader{
		Command:  shortened(commandLine(t)),
		Target:   t.Runtime,
		Kernel:   report.Kernel(),
		Date:     time.Now().UTC().Format(time.DateOnly),
		Interval: source.Stats().Interval.String(),
	}
}

// streamHeader describes the origin of a stream.
type streamHeader struct {
	Command  string   `json:"command"`
	Target   string   `json:"target"` // its runtime
	Kernel   string   `json:"kernel"`
	Date     string   `json:"date"`
	Interval string   `json:"interval"`
	Methods  []string `json:"methods"`
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

// writeStream writes a stream. It fills in the header's methods.
func writeStream(w io.Writer, h streamHeader, names *ccmap.Names, samples []ccmap.Sample) error {
	zipped := gzip.NewWriter(w)
	out := json.NewEncoder(zipped)
	for id := range names.Len() {
		h.Methods = append(h.Methods, names.At(ccmap.MethodID(id)).Name)
	}
	if err := out.Encode(h); err != nil {
		return err
	}
	threads := make(map[uint64]int64)
	for i := range samples {
		s, last := &samples[i], samples[max(i-1, 0)].Time
		if _, known := threads[s.Thread]; !known {
			threads[s.Thread] = int64(len(threads))
		}
		if err := out.Encode(numbers(s, threads[s.Thread], s.Time-last)); err != nil {
			return err
		}
	}
	return zipped.Close()
}

func numbers(s *ccmap.Sample, thread, since int64) []int64 {
	truncated := int64(0)
	if s.Truncated {
		truncated = 1
	}
	n := []int64{since, thread, s.Weight, int64(s.Top), int64(s.Fresh), int64(s.Depth), truncated}
	for _, f := range s.Frames {
		n = append(n, int64(f.Method), int64(f.Offset))
	}
	return n
}
