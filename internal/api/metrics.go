package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// mostLabelled bounds the targets that metrics tell apart. No other name is ever a label.
const mostLabelled = 256

// metrics are the metrics of a server. Metrics of targets are collected when a client asks for them:
// they cost sampling nothing.
type metrics struct {
	full     bool
	registry *prometheus.Registry
	handler  http.Handler
	requests *prometheus.HistogramVec
	refused  prometheus.Counter
	loads    *prometheus.CounterVec
}

// loaded counts a question for what the fleet knows of a profile's methods, by its error.
func (m *metrics) loaded(err error) {
	switch {
	case err == nil:
		m.loads.WithLabelValues("yes").Inc()
	case errors.Is(err, errNoFanIn):
		m.loads.WithLabelValues("no").Inc()
	}
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		full:     s.options.FullMetrics,
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ccmapd_http_request_seconds", Help: "Time to answer a request, without the time that the client asked to wait (?seconds=).",
			Buckets: []float64{.001, .005, .02, .05, .2, 1, 5, 30},
		}, []string{"route"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "ccmapd_http_refused_total", Help: "Requests and connections that were refused."}),
		loads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ccmapd_fanin_loads_total", Help: "Questions of clients for the fleet's fan-in of a program, by whether it was known.",
		}, []string{"known"}),
	}
	for _, known := range []string{"yes", "no"} {
		m.loads.WithLabelValues(known) // 0 is a count, too
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ccmapd_build_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{"version": s.options.Version},
	})
	build.Set(1)
	reloaded := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ccmapd_config_last_reload_successful", Help: "1: the configuration in force is the latest; 0: the last reload was refused.",
	}, func() float64 { return float64(oneIf(s.options.Daemon.LastReload() == nil)) })
	m.registry.MustRegister(m.requests, m.refused, m.loads, build, reloaded, storeCollector{s.options.Daemon}, targetCollector{s.options.Daemon, s.options.FullMetrics},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // CPU time and memory of the daemon
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 1, DisableCompression: true})
	return m
}

// storeCollector makes the metrics of the store, where there is one.
type storeCollector struct{ daemon Daemon }

var (
	behindDesc  = prometheus.NewDesc("ccmapd_store_log_behind_seconds", "Time since what was counted was logged last: what a kill would lose.", nil, nil)
	failedDesc  = prometheus.NewDesc("ccmapd_store_log_errors_total", "Attempts to log what was counted that failed.", nil, nil)
	damagedDesc = prometheus.NewDesc("ccmapd_store_log_damaged", "1: the log was damaged when the daemon began; what was whole was kept.", nil, nil)
)

// Of the hub, where there is one.
var (
	sendingDesc = prometheus.NewDesc("ccmapd_send_working", "1: the hub has taken what was sent last, or nothing was sent yet.", nil, nil)
	waitingDesc = prometheus.NewDesc("ccmapd_send_waiting_files", "Files that the hub does not have.", nil, nil)
	sentDesc    = prometheus.NewDesc("ccmapd_send_contributions_total", "Contributions that the hub has taken.", nil, nil)
	unsentDesc  = prometheus.NewDesc("ccmapd_send_errors_total", "Attempts to send to the hub that failed.", nil, nil)
	lostDesc    = prometheus.NewDesc("ccmapd_send_lost_total", "Contributions that the hub does not take, and files that were gone before they were sent.", nil, nil)
)

// Of the fan-in that the hub knows, where it is asked.
var (
	faninDesc    = prometheus.NewDesc("ccmapd_fanin_methods", "Methods whose fan-in in the whole fleet is kept, of programs that are sampled.", nil, nil)
	fetchesDesc  = prometheus.NewDesc("ccmapd_fanin_fetches_total", "Questions to the hub for the fan-in of a program, by what became of them.", []string{"outcome"}, nil)
	fanStoreDesc = prometheus.NewDesc("ccmapd_fanin_stores_total", "Methods of files of fan-in, by what became of them: created, overwritten with better ones, ties and worse ones, which leave what stands.", []string{"as"}, nil)
)

func (storeCollector) Describe(to chan<- *prometheus.Desc) {
	to <- faninDesc
	to <- fetchesDesc
	to <- fanStoreDesc
	to <- behindDesc
	to <- failedDesc
	to <- damagedDesc
	to <- sendingDesc
	to <- waitingDesc
	to <- sentDesc
	to <- unsentDesc
	to <- lostDesc
}

func (c storeCollector) Collect(to chan<- prometheus.Metric) {
	k, keeps := c.daemon.Keeping()
	if !keeps {
		return
	}
	to <- prometheus.MustNewConstMetric(behindDesc, prometheus.GaugeValue, k.Behind.Seconds())
	to <- prometheus.MustNewConstMetric(failedDesc, prometheus.CounterValue, float64(k.Failed))
	to <- prometheus.MustNewConstMetric(damagedDesc, prometheus.GaugeValue, float64(oneIf(k.Damage != "")))
	h := k.Hub
	if h == nil {
		return
	}
	to <- prometheus.MustNewConstMetric(sendingDesc, prometheus.GaugeValue, float64(oneIf(h.State != daemon.HubFails)))
	to <- prometheus.MustNewConstMetric(waitingDesc, prometheus.GaugeValue, float64(h.Waiting))
	to <- prometheus.MustNewConstMetric(sentDesc, prometheus.CounterValue, float64(h.Sent))
	to <- prometheus.MustNewConstMetric(unsentDesc, prometheus.CounterValue, float64(h.Failures))
	to <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, float64(h.Lost))
	if h.FanIn != nil {
		collectFanIn(to, h.FanIn)
	}
}

func collectFanIn(to chan<- prometheus.Metric, f *daemon.FanInOfFleet) {
	to <- prometheus.MustNewConstMetric(faninDesc, prometheus.GaugeValue, float64(f.Methods))
	for outcome, n := range map[string]uint64{"new": f.Fetched, "unchanged": f.Unchanged, "unknown": f.Unknown, "failed": f.Failures} {
		to <- prometheus.MustNewConstMetric(fetchesDesc, prometheus.CounterValue, float64(n), outcome)
	}
	for as, n := range map[string]int{"created": f.Created, "overwritten": f.Overwritten, "tie": f.Ties, "worse": f.Worse} {
		to <- prometheus.MustNewConstMetric(fanStoreDesc, prometheus.CounterValue, float64(n), as)
	}
}

// kindOf returns what a route is about: each route has a histogram, and most services have few.
func kindOf(route string) string {
	method, path, _ := strings.Cut(route, " ")
	switch {
	case path == "/v1/events":
		return "events"
	case !strings.Contains(path, "/v1/") && !strings.Contains(path, "{view}"):
		return "health"
	case method != http.MethodGet:
		return "changes"
	case strings.Contains(path, "{view}"), path == "/v1/overlap", path == "/v1/diff":
		return "profiles"
	}
	return "targets"
}

// timed measures the time of a route.
func (m *metrics) timed(route string, next http.Handler) http.Handler {
	if !m.full {
		route = kindOf(route)
	}
	observer := m.requests.WithLabelValues(route)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start, waited := time.Now(), new(atomic.Int64)
		defer func() { observer.Observe((time.Since(start) - time.Duration(waited.Load())).Seconds()) }()
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), waitedKey{}, waited)))
	})
}

// waitedKey is the key of the time that a request has waited because its client asked for it, in the
// request's context.
type waitedKey struct{}

// noteWait notes such time.
func noteWait(ctx context.Context, d time.Duration) {
	if waited, ok := ctx.Value(waitedKey{}).(*atomic.Int64); ok {
		waited.Add(int64(d))
	}
}

func (c *call) scrape() error {
	c.deadline()
	c.metrics.handler.ServeHTTP(c.w, c.Request)
	return nil
}

// targetCollector makes the metrics of targets of their status.
type targetCollector struct {
	daemon Daemon
	full   bool
}

// targetMetric is a metric of each target. A large fleet keeps few of them: those that alerts ask for.
type targetMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	kept bool // also where not all are asked for
	// values returns the values, by the second label. One without a second label has one value, of the empty word.
	values func(t daemon.TargetStatus, full bool) map[string]float64
}

const kept = true

var targetMetrics = []targetMetric{
	counter(kept, "samples_total", "Samples that were folded.", func(c daemon.Counters) float64 { return float64(c.Samples) }),
	counter(kept, "sampled_cpu_seconds_total", "CPU time that samples stand for.", func(c daemon.Counters) float64 { return seconds(c.SampledNS) }),
	{describe("samples_lost_total", "Samples that were lost, by where.", "where"), prometheus.CounterValue, kept, lost},
	counter(!kept, "throttled_total", "Times that the kernel held sampling up.", func(c daemon.Counters) float64 { return float64(c.Throttled) }),
	gauge(kept, "interval_seconds", "CPU time between two samples of a thread.", func(f daemon.Figures) float64 { return seconds(f.IntervalNS) }),
	counter(!kept, "interval_changes_total", "Changes of that interval.", func(c daemon.Counters) float64 { return float64(c.IntervalChanges) }),
	counter(!kept, "repetitions_total", "Samples that found the same activation again.", func(c daemon.Counters) float64 { return float64(c.Repeated) }),
	counter(!kept, "repetitions_known_total", "Samples with a verdict on that.", func(c daemon.Counters) float64 { return float64(c.Known) }),
	gauge(kept, "threads", "Threads that are sampled.", func(f daemon.Figures) float64 { return float64(f.Threads) }),
	gauge(!kept, "map_nodes", "Contexts in the maps.", func(f daemon.Figures) float64 { return float64(f.Nodes) }),
	gauge(kept, "map_bytes", "Memory of the maps.", func(f daemon.Figures) float64 { return float64(f.Bytes) }),
	counter(kept, "pruned_nodes_total", "Contexts that were given up for memory.", func(c daemon.Counters) float64 { return float64(c.PrunedNodes) }),
	{describe("waiting_samples", "Samples of what goroutines wait for, of processes that are sampled now."), prometheus.GaugeValue, kept, waits(func(w *daemon.WaitsStatus) float64 { return float64(w.Samples) })},
	{describe("goroutines", "Goroutines whose waits are sampled."), prometheus.GaugeValue, kept, waits(func(w *daemon.WaitsStatus) float64 { return float64(w.Goroutines) })},
	{describe("converged_ratio", "Overlap of two halves of the samples, by what is counted.", "of"), prometheus.GaugeValue, kept, converged},
	gauge(kept, "drifting", "1: lately the program has done something else than before.", func(f daemon.Figures) float64 { return float64(oneIf(f.Drift)) }),
	counter(!kept, "calls_caught_total", "Calls that breakpoints have caught.", func(c daemon.Counters) float64 { return float64(c.Caught) }),
	counter(kept, "store_errors_total", "Attempts to file a period that failed.", func(c daemon.Counters) float64 { return float64(c.Unfiled) }),
	{describe("attach_failures_total", "Attempts to attach that failed.", "reason"), prometheus.CounterValue, kept, failures},
	{describe("restarts_total", "Processes that were sampled to their end."), prometheus.CounterValue, kept, func(t daemon.TargetStatus, _ bool) map[string]float64 {
		return alone(float64(t.Restarts))
	}},
}

var targetsDesc = prometheus.NewDesc("ccmapd_targets", "Targets in each state.", []string{"state"}, nil)

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("ccmapd_"+name, help, append([]string{"target"}, more...), nil)
}

func counter(kept bool, name, help string, value func(daemon.Counters) float64) targetMetric {
	return targetMetric{describe(name, help), prometheus.CounterValue, kept, func(t daemon.TargetStatus, _ bool) map[string]float64 {
		return alone(value(t.Counters))
	}}
}

func gauge(kept bool, name, help string, value func(daemon.Figures) float64) targetMetric {
	return targetMetric{describe(name, help), prometheus.GaugeValue, kept, func(t daemon.TargetStatus, _ bool) map[string]float64 {
		return alone(value(t.Status))
	}}
}

// waits is a figure of targets whose waits are sampled.
func waits(value func(*daemon.WaitsStatus) float64) func(daemon.TargetStatus, bool) map[string]float64 {
	return func(t daemon.TargetStatus, _ bool) map[string]float64 {
		if t.Waits == nil {
			return nil
		}
		return alone(value(t.Waits))
	}
}

// alone is the value of a metric without a second label.
func alone(value float64) map[string]float64 { return map[string]float64{"": value} }

// anyOf adds up the values of a second label, unless all are asked for.
func anyOf(values map[string]float64, full bool) map[string]float64 {
	if full {
		return values
	}
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return map[string]float64{"any": sum}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// converged returns how settled the profile is, by what is counted: edges are what most readers look at.
func converged(t daemon.TargetStatus, full bool) map[string]float64 {
	s := t.Status.Settled
	if !full {
		return map[string]float64{"edges": s.Edges / 100}
	}
	return map[string]float64{"methods": s.Methods / 100, "edges": s.Edges / 100, "contexts": s.Contexts / 100}
}

// lost returns the samples that were lost, by where.
func lost(t daemon.TargetStatus, full bool) map[string]float64 {
	c := t.Counters
	return anyOf(map[string]float64{
		"source": float64(c.LostSource), "queue": float64(c.LostQueue), "corrupt": float64(c.LostCorrupt),
		"orphaned": float64(c.Orphaned), "store": float64(c.GivenUp),
	}, full)
}

// failures returns the attempts to attach that failed, by reason.
func failures(t daemon.TargetStatus, full bool) map[string]float64 {
	f := t.Counters.Failures
	return anyOf(map[string]float64{
		"not-permitted": float64(f.NotPermitted), "unsupported": float64(f.Unsupported), "other": float64(f.Other),
	}, full)
}

// Describe sends all descriptions.
func (targetCollector) Describe(to chan<- *prometheus.Desc) {
	to <- targetsDesc
	for _, m := range targetMetrics {
		to <- m.desc
	}
}

// Collect sends the metrics of all targets.
func (c targetCollector) Collect(to chan<- prometheus.Metric) {
	all := c.daemon.Targets()
	states := map[daemon.State]int{}
	for _, t := range all {
		states[t.State]++
	}
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(targetsDesc, prometheus.GaugeValue, float64(n), string(state))
	}
	for _, t := range all[:min(len(all), mostLabelled)] {
		for _, m := range targetMetrics {
			if m.kept || c.full {
				m.send(to, t, c.full)
			}
		}
	}
}

// send sends the values of a target.
func (m targetMetric) send(to chan<- prometheus.Metric, t daemon.TargetStatus, full bool) {
	for label, value := range m.values(t, full) {
		labels := []string{t.Name, label}
		if label == "" {
			labels = labels[:1]
		}
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, value, labels...)
	}
}
