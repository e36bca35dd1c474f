package hub

import (
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/ccmapd/ccmapd/internal/fleet"
)

// status says how far the bucket is behind, for all its hubs, and what this hub has taken and refused.
func (h *Hub) status(w http.ResponseWriter, r *http.Request, t token) error {
	if !t.permits("*") {
		return refuse(http.StatusForbidden, "the status is of all targets: the token must permit *")
	}
	is := fleet.Status{Since: h.began.UTC(), Accepted: values(h.count.accepted)[""], Refused: values(h.count.refusedWrites)}
	var keys []string
	var oldest time.Time
	for e, err := range h.Bucket.List(r.Context(), segmentsDir) {
		if err != nil {
			return fmt.Errorf("list segments: %w", err)
		}
		keys = append(keys, e.Key)
		if at := segmentTime(e.Key); !at.IsZero() && (oldest.IsZero() || at.Before(oldest)) {
			oldest = at
		}
	}
	is.Waiting = waiting(keys)
	if !oldest.IsZero() {
		is.Lag = max(0, h.Now().Sub(oldest))
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
