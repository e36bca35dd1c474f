package hub

import "github.com/prometheus/client_golang/prometheus"

// counters are the hub's metrics.
type counters struct {
	accepted, segments, merged, duplicates, cloned, newer, bad, lostRaces, garbage, outliers, deleted prometheus.Counter
	refused, refusedWrites                                                                            *prometheus.CounterVec
	rounds                                                                                            prometheus.Counter
	failures                                                                                          prometheus.Counter
	partitions                                                                                        prometheus.Gauge
}

func newCounters(to prometheus.Registerer) *counters {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "ccmapd_hub_" + name + "_total", Help: help})
		to.MustRegister(c)
		return c
	}
	c := &counters{
		accepted:   counter("accepted", "Contributions that were acknowledged."),
		segments:   counter("segments", "Segments that were written."),
		merged:     counter("merged", "Contributions that were merged into an aggregate."),
		duplicates: counter("duplicates", "Contributions that an aggregate had already."),
		cloned:     counter("cloned", "Contributions whose number another body has: two machines have one instance."),
		newer:      counter("newer", "Contributions of a later version, met in segments."),
		bad:        counter("bad", "Contributions that were set aside, as they could not be read or did not fit."),
		lostRaces:  counter("lost_races", "Commits that another aggregator was before."),
		garbage:    counter("garbage", "Objects that were removed, as no manifest names them."),
		outliers:   counter("outliers", "Instances that began to differ from the others of their build."),
		deleted:    counter("deleted", "Contributions that were dropped, as their build was deleted."),
		rounds:     counter("rounds", "Rounds of the aggregator."),
		failures:   counter("failures", "Rounds of the aggregator and segments that failed: see the log."),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ccmapd_hub_refused_total", Help: "Requests that were refused, by status.",
		}, []string{"status"}),
		refusedWrites: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "ccmapd_hub_refused_writes_total", Help: "Contributions that were refused, by status.",
		}, []string{"status"}),
	}
	c.partitions = prometheus.NewGauge(prometheus.GaugeOpts{Name: "ccmapd_hub_partitions", Help: "Partitions that this hub merges."})
	to.MustRegister(c.refused, c.refusedWrites, c.partitions)
	return c
}
