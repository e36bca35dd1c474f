package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

const minute = time.Minute

// tuningJSON is the answer of /v1/p/REF/tuning: a row a step, by columns. A value of null is not known.
type tuningJSON struct {
	T      []int64               `json:"t"` // seconds since 1970, at the end of each step
	Series map[string][]*float64 `json:"series"`
	Band   [2]float64            `json:"band_percent"` // that the tuner keeps repeated_percent in
	Marks  []markJSON            `json:"marks"`        // events that are still kept
}

type markJSON struct {
	T    int64       `json:"t"`
	Kind daemon.Kind `json:"kind"`
	Text string      `json:"text"` // for people; foreign names in it are not printable yet
}

// markKinds are the events that say why a target is sampled as it is.
var markKinds = []daemon.Kind{daemon.EventState, daemon.EventInterval, daemon.EventDrift, daemon.EventLoss, daemon.EventBuild}

// series are the columns by name.
var series = map[string]func(daemon.Minute) *float64{
	"interval_ns":        func(m daemon.Minute) *float64 { return known(float64(m.Interval), m.Interval > 0) },
	"repeated_percent":   func(m daemon.Minute) *float64 { return portion(float64(m.Again), float64(m.Known)) },
	"samples_per_second": func(m daemon.Minute) *float64 { return known(float64(m.Samples)/m.Lasted.Seconds(), true) },
	"cpu_cores":          func(m daemon.Minute) *float64 { return known(m.Sampled.Seconds()/m.Lasted.Seconds(), true) },
	"overhead_percent":   func(m daemon.Minute) *float64 { return portion(float64(m.Cost), float64(m.Of)) },
	"lost_percent":       func(m daemon.Minute) *float64 { return portion(float64(m.Lost), float64(m.Lost+m.Samples)) },
	"threads":            func(m daemon.Minute) *float64 { return known(float64(m.Threads), true) },
	"nodes":              func(m daemon.Minute) *float64 { return known(float64(m.Nodes), true) },
	"bytes":              func(m daemon.Minute) *float64 { return known(float64(m.Bytes), true) },
	"settled_methods":    func(m daemon.Minute) *float64 { return known(m.Settled.Methods, m.Settled.Methods > 0) },
	"settled_edges":      func(m daemon.Minute) *float64 { return known(m.Settled.Edges, m.Settled.Edges > 0) },
	"settled_contexts":   func(m daemon.Minute) *float64 { return known(m.Settled.Contexts, m.Settled.Contexts > 0) },
}

// known returns a value, nil where it is not known.
func known(v float64, ok bool) *float64 {
	if !ok {
		return nil
	}
	return &v
}

// portion returns a share in percent.
func portion(of, whole float64) *float64 { return known(100*of/whole, whole > 0) }

// tuning answers how a target was sampled in the last day.
func (c *call) tuning() error {
	q := newParams(c.URL.Query())
	since, step := q.text("since", "0"), q.text("step", "1m")
	if err := q.check(); err != nil {
		return err
	}
	begin, err := strconv.ParseInt(since, 10, 64)
	if err != nil {
		return usageError("since=%s is no time in seconds since 1970", since)
	}
	each, err := time.ParseDuration(step)
	if err != nil || each < minute || each > 24*time.Hour {
		return usageError("step=%s is not a time from 1m to 24h", step)
	}
	kind, name, _ := strings.Cut(c.PathValue("ref"), ":")
	if kind != liveKind {
		return usageError("how a profile was sampled is known of live:NAME alone")
	}
	t, err := c.named(name)
	if err != nil {
		return err
	}
	rows, err := c.options.Daemon.History(t.Name, time.Unix(begin, 0))
	if err != nil {
		return err
	}
	return c.respond(http.StatusOK, c.tuningOf(inSteps(rows, each), t.Name))
}

// tuningOf returns the columns of some rows, with the events of the time since the first.
func (c *call) tuningOf(rows []daemon.Minute, target string) tuningJSON {
	out := tuningJSON{
		T: []int64{}, Series: make(map[string][]*float64), Marks: []markJSON{}, Band: [2]float64{100 * daemon.LowRepetitions, 100 * daemon.HighRepetitions},
	}
	for name := range series {
		out.Series[name] = []*float64{}
	}
	for _, m := range rows {
		out.T = append(out.T, m.At.Unix())
		for name, of := range series {
			out.Series[name] = append(out.Series[name], of(m))
		}
	}
	events, cancel := c.options.Daemon.Events(0)
	defer cancel()
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return out
			}
			if e.Target == target && slices.Contains(markKinds, e.Kind) && c.hearsNow(e) {
				out.Marks = append(out.Marks, markJSON{e.At.Unix(), e.Kind, e.Text})
			}
		default:
			return out
		}
	}
}

// inSteps joins minutes into steps: counts add up, and what is a state is that of the last.
func inSteps(rows []daemon.Minute, each time.Duration) []daemon.Minute {
	var all []daemon.Minute
	for _, m := range rows {
		if n := len(all) - 1; n >= 0 && stepOf(all[n], each) == stepOf(m, each) {
			before := all[n]
			m.Lasted += before.Lasted
			m.Samples += before.Samples
			m.Lost += before.Lost
			m.Known += before.Known
			m.Again += before.Again
			m.Sampled += before.Sampled
			m.Cost += before.Cost
			m.Of += before.Of
			all[n] = m
			continue
		}
		all = append(all, m)
	}
	return all
}

// stepOf numbers the steps of minutes. A minute that ends with a step is in it.
func stepOf(m daemon.Minute, each time.Duration) int64 {
	return m.At.Add(-minute/2).Unix() / int64(each.Seconds())
}
