package gopgo

import (
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// Serve writes the minimal profile of s, gzipped, as a daemon has it for a build. Calls leave whose caller has
// the code of several builds: their lines may be another build's. A comment says of which build the profile is
// and until when, how many samples it has, and what has left. Equal snapshots have equal bytes. Errors are those of
// [Edges] and [Minimal.Map].
func Serve(w io.Writer, s *ccmap.Snapshot) error {
	edges, err := Edges(s, BySamples)
	if err != nil {
		return err
	}
	all := Sum(edges)
	kept := edges[:0]
	for _, e := range edges {
		if e.Caller.Body != ccmap.MixedBodies {
			kept = append(kept, e)
		}
	}
	if len(kept) == 0 {
		return fmt.Errorf("%w: all callers have the code of several builds", ErrNoEdges)
	}
	minimal := Minimize(kept, 1)
	of := s.Meta()
	of.Comments = append(append([]string(nil), of.Comments...), servedComment(s, minimal, all-Sum(kept), all))
	m, err := minimal.Map(of)
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	return errors.Join(export.Write(z, export.Pprof, m.Snapshot()), z.Close())
}

// servedComment says where a served profile comes from. A time in place of an age stays true.
func servedComment(s *ccmap.Snapshot, m Minimal, stale, all int64) string {
	of, build, until := s.Meta(), "unknown", "unknown"
	if of.Target.BuildID != "" {
		build = of.Target.BuildID
	}
	if !of.Start.IsZero() {
		until = of.Start.Add(of.Duration).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	return fmt.Sprintf("pgo: build %s, %d samples until %s, %d hot calls; left out: %.1f %% of the weight, whose callers have code of several builds",
		build, s.Total().Samples, until, len(m.Hot), 100*float64(stale)/float64(max(all, 1)))
}
