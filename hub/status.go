package hub

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// backlog knows what waits in the bucket, as somebody has listed it last: the aggregator, or the backlog itself when it
// is asked. Any goroutine may call the methods. mu guards the rest, and is not held while the bucket works.
type backlog struct {
	bucket bucket.Bucket
	asking chan struct{} // of size 1: of many who ask at once, one lists

	mu sync.Mutex
	is listedSegments
}

// listedSegments are the segments of a bucket at a time.
type listedSegments struct {
	at, oldest    time.Time // oldest: the zero time if nothing waits, or no name says when
	contributions int
}

func newBacklog(b bucket.Bucket) *backlog {
	return &backlog{bucket: b, asking: make(chan struct{}, 1)}
}

// list returns the keys of all segments, the oldest first, as far as clocks agree.
func (b *backlog) list(ctx context.Context, now time.Time) (keys []string, err error) {
	for e, err := range b.bucket.List(ctx, segmentsDir) {
		if err != nil {
			return nil, fmt.Errorf("list segments: %w", err)
		}
		keys = append(keys, e.Key)
	}
	slices.SortStableFunc(keys, func(a, b string) int { return segmentTime(a).Compare(segmentTime(b)) })
	is := listedSegments{at: now, contributions: waiting(keys)}
	for _, key := range keys {
		if is.oldest = segmentTime(key); !is.oldest.IsZero() {
			break
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.is = is
	return keys, nil
}

// get returns what waits. It may be as old as other answers of the bucket are.
func (b *backlog) get(ctx context.Context, now time.Time) (listedSegments, error) {
	select {
	case b.asking <- struct{}{}:
		defer func() { <-b.asking }()
	case <-ctx.Done():
		return listedSegments{}, ctx.Err()
	}
	if is := b.last(); now.Sub(is.at) < catalogTime {
		return is, nil
	}
	if _, err := b.list(ctx, now); err != nil {
		return listedSegments{}, err
	}
	return b.last(), nil
}

func (b *backlog) last() listedSegments {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.is
}

// status says how far the bucket is behind, for all its hubs, and what this hub has taken and refused.
func (h *Hub) status(w http.ResponseWriter, r *http.Request, t token) error {
	if !t.permits("*") {
		return refuse(http.StatusForbidden, "the status is of all targets: the token must permit *")
	}
	listed, err := h.backlog.get(r.Context(), h.Now())
	if err != nil {
		return err
	}
	is := fleet.Status{
		Waiting: listed.contributions, Listed: listed.at.UTC(), Since: h.began.UTC(),
		Accepted: values(h.count.accepted)[""], Merged: values(h.count.merged)[""], Refused: values(h.count.refusedWrites),
	}
	if !listed.oldest.IsZero() {
		is.Lag = max(0, h.Now().Sub(listed.oldest))
	}
	return sendJSON(w, is)
}

// values returns what a collector has counted, by its only label; "": it has none.
func values(c prometheus.Collector) map[string]uint64 {
	metrics, all := make(chan prometheus.Metric), make(map[string]uint64)
	go func() { c.Collect(metrics); close(metrics) }()
	for m := range metrics {
		var is dto.Metric
		if m.Write(&is) != nil {
			continue
		}
		label := ""
		for _, l := range is.GetLabel() {
			label = l.GetValue()
		}
		all[label] += uint64(is.GetCounter().GetValue())
	}
	return all
}
