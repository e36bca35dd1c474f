package api

import (
	"context"
	"net/http"
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
	registry *prometheus.Registry
	handler  http.Handler
	requests *prometheus.HistogramVec
	refused  prometheus.Counter
}

func newMetrics(s *Server) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "ccmapd_http_request_seconds", Help: "Time to answer a request, without the time that the client asked to wait (?seconds=).",
			Buckets: []float64{.001, .005, .02, .05, .2, 1, 5, 30},
		}, []string{"route"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "ccmapd_http_refused_total", Help: "Requests and connections that were refused."}),
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "ccmapd_build_info", Help: "1, with the version.", ConstLabels: prometheus.Labels{"version": s.options.Version},
	})
	build.Set(1)
	reloaded := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "ccmapd_config_last_reload_successful", Help: "1: the configuration in force is the latest; 0: the last reload was refused.",
	}, func() float64 { return float64(oneIf(s.options.Daemon.LastReload() == nil)) })
	m.registry.MustRegister(m.requests, m.refused, build, reloaded, targetCollector{s.options.Daemon},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{})) // CPU time and memory of the daemon
	m.handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{MaxRequestsInFlight: 1, DisableCompression: true})
	return m
}

// timed measures the time of a route.
func (m *metrics) timed(route string, next http.Handler) http.Handler {
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
type targetCollector struct{ daemon Daemon }

// targetMetric is a metric of each target.
type targetMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(daemon.TargetStatus) float64
}

var targetMetrics = []targetMetric{
	counter("samples_total", "Samples that were folded.", func(c daemon.Counters) float64 { return float64(c.Samples) }),
	counter("sampled_cpu_seconds_total", "CPU time that samples stand for.", func(c daemon.Counters) float64 { return seconds(c.SampledNS) }),
	counter("throttled_total", "Times that the kernel held sampling up.", func(c daemon.Counters) float64 { return float64(c.Throttled) }),
	gauge("interval_seconds", "CPU time between two samples of a thread.", func(f daemon.Figures) float64 { return seconds(f.IntervalNS) }),
	counter("interval_changes_total", "Changes of that interval.", func(c daemon.Counters) float64 { return float64(c.IntervalChanges) }),
	counter("repetitions_total", "Samples that found the same activation again.", func(c daemon.Counters) float64 { return float64(c.Repeated) }),
	counter("repetitions_known_total", "Samples with a verdict on that.", func(c daemon.Counters) float64 { return float64(c.Known) }),
	gauge("threads", "Threads that are sampled.", func(f daemon.Figures) float64 { return float64(f.Threads) }),
	gauge("map_nodes", "Contexts in the maps.", func(f daemon.Figures) float64 { return float64(f.Nodes) }),
	gauge("map_bytes", "Memory of the maps.", func(f daemon.Figures) float64 { return float64(f.Bytes) }),
	counter("pruned_nodes_total", "Contexts that were given up for memory.", func(c daemon.Counters) float64 { return float64(c.PrunedNodes) }),
	gauge("drifting", "1: lately the program has done something else than before.", func(f daemon.Figures) float64 { return float64(oneIf(f.Drift)) }),
	counter("calls_caught_total", "Calls that breakpoints have caught.", func(c daemon.Counters) float64 { return float64(c.Caught) }),
	counter("store_errors_total", "Attempts to file a period that failed.", func(c daemon.Counters) float64 { return float64(c.Unfiled) }),
	{describe("restarts_total", "Processes that were sampled to their end."), prometheus.CounterValue, func(t daemon.TargetStatus) float64 { return float64(t.Restarts) }},
}

var (
	targetsDesc  = prometheus.NewDesc("ccmapd_targets", "Targets in each state.", []string{"state"}, nil)
	settledDesc  = describe("converged_ratio", "Overlap of two halves of the samples, by what is counted.", "of")
	lostDesc     = describe("samples_lost_total", "Samples that were lost, by where.", "where")
	failuresDesc = describe("attach_failures_total", "Attempts to attach that failed.", "reason")
)

func describe(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("ccmapd_"+name, help, append([]string{"target"}, more...), nil)
}

func counter(name, help string, value func(daemon.Counters) float64) targetMetric {
	return targetMetric{describe(name, help), prometheus.CounterValue, func(t daemon.TargetStatus) float64 { return value(t.Counters) }}
}

func gauge(name, help string, value func(daemon.Figures) float64) targetMetric {
	return targetMetric{describe(name, help), prometheus.GaugeValue, func(t daemon.TargetStatus) float64 { return value(t.Status) }}
}

func oneIf(is bool) int {
	if is {
		return 1
	}
	return 0
}

func settled(s daemon.Settled) map[string]float64 {
	return map[string]float64{"methods": s.Methods, "edges": s.Edges, "contexts": s.Contexts}
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// Describe sends all descriptions.
func (targetCollector) Describe(to chan<- *prometheus.Desc) {
	to <- targetsDesc
	to <- settledDesc
	to <- lostDesc
	to <- failuresDesc
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
			to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(t), t.Name)
		}
		for of, percent := range settled(t.Status.Settled) {
			to <- prometheus.MustNewConstMetric(settledDesc, prometheus.GaugeValue, percent/100, t.Name, of)
		}
		for where, n := range lost(t.Counters) {
			to <- prometheus.MustNewConstMetric(lostDesc, prometheus.CounterValue, float64(n), t.Name, where)
		}
		for reason, n := range failures(t.Counters.Failures) {
			to <- prometheus.MustNewConstMetric(failuresDesc, prometheus.CounterValue, float64(n), t.Name, reason)
		}
	}
}

// lost returns the samples that were lost, by where.
func lost(c daemon.Counters) map[string]uint64 {
	return map[string]uint64{"source": c.LostSource, "queue": c.LostQueue, "corrupt": c.LostCorrupt, "orphaned": c.Orphaned, "store": c.GivenUp}
}

// failures returns the attempts to attach that failed, by reason.
func failures(f daemon.Failures) map[string]uint64 {
	return map[string]uint64{"not-permitted": f.NotPermitted, "unsupported": f.Unsupported, "other": f.Other}
}
