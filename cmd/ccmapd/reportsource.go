package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/sampler"
)

// reportMarks says what went wrong with threads that sample themselves, if anything
// did.
func reportMarks(w io.Writer, s sampler.Stats) {
	var parts []string
	add := func(n uint64, format string, args ...any) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf(format, args...))
		}
	}
	add(s.Late, "%s of %s came late", figure.Plural(int64(s.Late), "mark"), figure.Count(int64(s.Marks)))
	add(uint64(s.Unsafe), "%s reached no safe point for a second or more", figure.Plural(int64(s.Unsafe), "thread"))
	add(s.Panicked, "%s could not be walked, and sampled no more", figure.Plural(int64(s.Panicked), "thread"))
	add(s.Abandoned, "%s ended without a word", figure.Plural(int64(s.Abandoned), "thread"))
	if len(parts) > 0 {
		fmt.Fprintf(w, "\n%s.\n", capital(strings.Join(parts, "; ")))
	}
}

// reportRecalled says of how many samples in C the callers are an earlier call's.
func reportRecalled(w io.Writer, s sampler.Stats) {
	if s.Recalled > 0 {
		fmt.Fprintf(w, "\nCallers of %s in C are those of the goroutine's last such call.\n", figure.Plural(int64(s.Recalled), "sample"))
	}
}

// sourceJSON counts what the source did, in samples where no unit is named.
type sourceJSON struct {
	Samples    uint64       `json:"samples"`
	Repaired   uint64       `json:"repaired"`
	Rooted     uint64       `json:"rooted"`
	Truncated  uint64       `json:"truncated"`
	Kernel     uint64       `json:"kernel"`
	Foreign    uint64       `json:"foreign"`
	Recalled   uint64       `json:"recalled"`
	Probed     uint64       `json:"probed"`
	Probes     int          `json:"probes"` // watchpoints
	KernelTime bool         `json:"kernel_time"`
	Hits       uint64       `json:"hits"`       // calls caught
	Bursts     uint64       `json:"bursts"`     // times that calls were caught for a while
	HitSites   int          `json:"hit_sites"`  // call instructions that are indirect and hot
	HitReason  string       `json:"hit_reason"` // why no calls are caught, where none can be
	Inside     *threadsJSON `json:"inside,omitempty"`
}

// threadsJSON says how threads fared that sample themselves.
type threadsJSON struct {
	Marks     uint64 `json:"marks"`
	Late      uint64 `json:"late"`      // of the marks
	Unsafe    int    `json:"unsafe"`    // threads that reached no safe point
	Panicked  uint64 `json:"panicked"`  // threads
	Abandoned uint64 `json:"abandoned"` // threads
}

func (s *session) newSourceJSON(src sampler.Stats) sourceJSON {
	out := sourceJSON{src.Samples, src.Repaired, src.Rooted, src.Truncated, src.Kernel, src.Foreign, src.Recalled, src.Probed, src.Probes,
		s.chosen.noKernelTime() == "", src.Hits, src.Bursts, src.HitSites, src.HitReason, nil}
	if s.chosen.embedded {
		out.Inside = &threadsJSON{src.Marks, src.Late, src.Unsafe, src.Panicked, src.Abandoned}
	}
	return out
}
