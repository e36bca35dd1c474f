package hub

import (
	"context"
	"crypto/rand"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ccmapd/ccmapd/hub/bucket"
	"github.com/ccmapd/ccmapd/internal/audit"
)

// Options of a hub.
type Options struct {
	Bucket bucket.Bucket
	Tokens *Tokens
	Logger *slog.Logger  // nil: none
	Window time.Duration // that a contribution waits for others of its segment; default 250 ms
	Round  time.Duration // from one round of the aggregator to the next, unless much waits; default 5 min
	Quotas Quotas

	Partitions int           // that hubs share the work by; default 1
	Lease      time.Duration // after which others take over the partitions of a silent hub; default 15 s

	Keep     time.Duration // of hours and days, and of builds without contributions; default 90 days
	MaxBytes int64         // of a build: the oldest hours and days go; default 1 GiB

	Now func() time.Time // of the sums, for tests; nil: time.Now
}

// Hub takes contributions, merges them, and serves the sums. It is an [http.Handler].
type Hub struct {
	Options
	intake     *intake
	aggregator *aggregator
	leases     *leases
	backlog    *backlog
	catalog    *catalog
	meter      *meter
	count      *counters
	audit      *audit.Log
	tokens     atomic.Pointer[Tokens]
	decoding   chan struct{} // of size mostDecoding
	mux        *http.ServeMux
	working    atomic.Bool // the bucket has answered lately
	began      time.Time

	merged, collected time.Time // the last time, since a lease was taken; of the goroutine that aggregates
}

const (
	mostDecoding = 2                // contributions that are read at once
	poll         = 10 * time.Second // from one look at the segments to the next
	collecting   = 30 * time.Minute
)

// New returns a hub. Its bucket must have passed [bucket.Check].
func New(o Options) *Hub {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Window == 0 {
		o.Window = 250 * time.Millisecond
	}
	if o.Round == 0 {
		o.Round = 5 * time.Minute
	}
	if o.Partitions == 0 {
		o.Partitions = 1
	}
	if o.Lease == 0 {
		o.Lease = leaseTime
	}
	if o.Keep == 0 {
		o.Keep = 90 * 24 * time.Hour
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = 1 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	name := strings.ToLower(rand.Text())
	registry := prometheus.NewRegistry()
	count, backlog := newCounters(registry), newBacklog(o.Bucket)
	h := &Hub{
		Options: o, count: count, backlog: backlog, catalog: newCatalog(o.Bucket), meter: &meter{Quotas: o.Quotas.withDefaults()},
		intake:     newIntake(o.Bucket, name, o.Partitions, o.Window, count),
		aggregator: &aggregator{bucket: o.Bucket, backlog: backlog, log: o.Logger, count: count, now: o.Now, keep: o.Keep, maxBytes: o.MaxBytes},
		leases:     newLeases(o.Bucket, name, o.Partitions, o.Lease),
		decoding:   make(chan struct{}, mostDecoding),
		began:      o.Now(),
		audit:      audit.New(o.Logger, auditBurst),
	}
	h.tokens.Store(o.Tokens)
	h.working.Store(true)
	h.mux = h.routes(registry)
	return h
}

// SetTokens changes who may do what, for the requests that follow.
func (h *Hub) SetTokens(t *Tokens) { h.tokens.Store(t) }

// Run writes and merges until ctx is done. What waits is written then; what was not merged, the next hub merges.
func (h *Hub) Run(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { h.intake.run(ctx) })
	all.Go(func() { h.aggregate(ctx) })
	all.Wait()
}

// aggregate looks for segments now and then.
func (h *Hub) aggregate(ctx context.Context) {
	ticker := time.NewTicker(min(poll, h.Round))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := h.look(ctx, time.Now()); err != nil && ctx.Err() == nil {
			h.count.failures.Inc()
			h.Logger.Error("cannot merge all that waits", "error", err)
		}
	}
}

// look merges and collects if it is time to. A round costs the store a few requests for each build: so it begins when
// much waits, or after a while. A hub that has just taken a lease knows nothing of the last round, and begins one:
// else hubs that end sooner than a round begins would never merge.
func (h *Hub) look(ctx context.Context, now time.Time) error {
	held, taken := h.leases.hold(ctx, now)
	h.count.partitions.Set(float64(len(held)))
	if len(held) == 0 {
		return nil
	}
	h.aggregator.share = share{h.Partitions, held}
	if taken {
		h.merged, h.collected = time.Time{}, time.Time{}
	}
	keys, err := h.aggregator.list(ctx)
	h.working.Store(err == nil)
	if err == nil && len(keys) > 0 && (waiting(keys) >= stepMost || now.Sub(h.merged) >= h.Round) {
		err = h.aggregator.round(ctx)
		h.count.rounds.Inc()
		h.merged = time.Now()
	}
	if err == nil && now.Sub(h.collected) >= collecting {
		err = h.aggregator.collect(ctx)
		h.collected = time.Now()
	}
	return err
}

// waiting returns how many contributions segments have, by their names.
func waiting(keys []string) (n int) {
	for _, key := range keys {
		count := 0
		for _, digit := range key[strings.LastIndexByte(key, '-')+1:] {
			if digit < '0' || digit > '9' || count > segmentCount {
				break
			}
			count = 10*count + int(digit-'0')
		}
		n += max(count, 1)
	}
	return n
}
