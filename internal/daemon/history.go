package daemon

import (
	"math"
	"slices"
	"sync"
	"time"
)

const (
	minute      = time.Minute
	minutesKept = 24 * 60
)

// The tuner of a target keeps the rate of repetitions between these, as parts of the samples with a verdict.
const (
	LowRepetitions  = 0.01
	HighRepetitions = 0.15
)

// Minute is how the sessions of a target have sampled in a minute. Counts are of the minute alone.
type Minute struct {
	At      time.Time // its end
	Lasted  time.Duration
	Samples uint64
	Lost    uint64
	Known   uint64 // samples with a verdict on their top activation
	Again   uint64 // repetitions
	Sampled time.Duration
	Cost    time.Duration // CPU time of the target that sampling took
	Of      time.Duration // CPU time of the target; 0: the cost is not known

	Interval time.Duration // the shortest; 0: nothing is sampled
	Threads  int
	Nodes    int
	Bytes    int64 // of the maps
	Settled  Settled
}

// history has the last day of a target by the minute. The goroutine of Run adds to it, any may read it.
//
//	began … costs  the goroutine of Run
//	rows           under mu
type history struct {
	began  time.Time // of the minute
	before Counters
	costs  map[*session]cost // of the sessions, at the end of the last minute

	mu   sync.Mutex
	rows []Minute // the oldest first
}

// cost is what sampling has taken of a process, and the CPU time of that process.
type cost struct{ sampling, of time.Duration }

// note adds the minute that ends now, if one does.
func (h *history) note(now time.Time, t *target) {
	if h.began.IsZero() {
		h.began = now
	}
	lasted := now.Sub(h.began)
	if lasted < minute {
		return
	}
	all, _, _, _ := t.tally.figures()
	m := Minute{
		At: now, Lasted: lasted, Samples: all.Samples - h.before.Samples, Lost: lostOf(all) - lostOf(h.before),
		Known: all.Known - h.before.Known, Again: all.Repeated - h.before.Repeated, Sampled: time.Duration(all.SampledNS - h.before.SampledNS),
	}
	costs := make(map[*session]cost)
	var figures Figures
	for _, f := range t.all() {
		s := f.session.Load()
		if s == nil {
			continue
		}
		o := s.Source.Stats().Overhead
		costs[s] = cost{o.Total(), o.Of}
		m.Cost += max(costs[s].sampling-h.costs[s].sampling, 0)
		m.Of += max(costs[s].of-h.costs[s].of, 0)
		figures.add(figuresOf(s.Manager.Status()))
	}
	m.Interval, m.Threads, m.Nodes, m.Bytes, m.Settled = time.Duration(figures.IntervalNS), figures.Threads, figures.Nodes, figures.Bytes, figures.Settled
	h.began, h.before, h.costs = now, all, costs
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.rows) >= minutesKept {
		h.rows = slices.Delete(h.rows, 0, len(h.rows)-minutesKept+1)
	}
	h.rows = append(h.rows, m)
}

func lostOf(c Counters) uint64 { return c.LostSource + c.LostQueue + c.LostCorrupt }

func (h *history) since(begin time.Time) []Minute {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := len(h.rows)
	for i > 0 && h.rows[i-1].At.After(begin) {
		i--
	}
	return slices.Clone(h.rows[i:])
}

const minutesShown = 60

// rate returns the samples a second in each of the last minutes, to a tenth, the latest first.
func (h *history) rate() []float64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []float64
	for _, m := range slices.Backward(h.rows[max(len(h.rows)-minutesShown, 0):]) {
		all = append(all, math.Round(10*float64(m.Samples)/m.Lasted.Seconds())/10)
	}
	return all
}

// History returns the minutes of a target that ended after a time, of the last day, the oldest first. The error wraps
// [ErrNoTarget].
func (d *Daemon) History(name string, since time.Time) ([]Minute, error) {
	t, err := d.roster.named(name)
	if err != nil {
		return nil, err
	}
	return t.history.since(since), nil
}
