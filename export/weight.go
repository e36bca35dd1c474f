package export

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Weight is how often a profile counts in a sum, exactly: a decimal number over
// 0, for example 2 or 0.5. The zero Weight is that of 1.
type Weight struct{ num, den uint64 }

// once is the weight of a profile that counts as it is.
var once = Weight{1, 1}

// maxDecimals is how many digits a weight may have behind the point, and maxWhole
// how many before it, so that both numbers fit.
const maxDecimals, maxWhole = 9, 9

var errWeight = errors.New("want a number over 0 with up to nine digits on each side of the point, for example 2 or 0.5")

// ParseWeight parses a decimal number.
func ParseWeight(s string) (Weight, error) {
	whole, decimals, _ := strings.Cut(s, ".")
	if len(whole) > maxWhole || len(decimals) > maxDecimals {
		return Weight{}, errWeight
	}
	num, err := strconv.ParseUint(whole+decimals, 10, 64)
	if err != nil || num == 0 {
		return Weight{}, errWeight
	}
	den := uint64(1)
	for range decimals {
		den *= 10
	}
	return Weight{num, den}, nil
}

func (w Weight) isOne() bool { return w.num == w.den }

// scaler multiplies counts with a weight, one after the other. What one loses or
// gains by rounding is made good by the next, so that the sum is the nearest
// whole number to what it should be.
type scaler struct {
	Weight
	rest uint64 // of the division
}

func newScaler(w Weight) scaler { return scaler{w, w.den / 2} }

// scale multiplies a count, which is not negative. The product stays at the
// largest int64 instead of overflowing.
func (s *scaler) scale(n int64) int64 {
	if s.isOne() {
		return n
	}
	hi, lo := bits.Mul64(uint64(n), s.num)
	lo, carry := bits.Add64(lo, s.rest, 0)
	if hi += carry; hi >= s.den {
		return math.MaxInt64
	}
	product, rest := bits.Div64(hi, lo, s.den)
	s.rest = rest
	return int64(min(product, math.MaxInt64))
}

// counterScaler scales counters of nodes.
type counterScaler [ccmap.NumCounters]scaler

func newCounterScaler(w Weight) *counterScaler {
	s := new(counterScaler)
	for k := range s {
		s[k] = newScaler(w)
	}
	return s
}

func (s *counterScaler) scale(c ccmap.Counters) ccmap.Counters {
	for k := range ccmap.NumCounters {
		n := k.Of(&c)
		*n = s[k].scale(*n)
	}
	return c
}

// scaled returns a copy of a map with all that it counts times a weight. Its
// activations are those of an estimate, and no longer exact.
func scaled(s *ccmap.Snapshot, w Weight) *ccmap.Map {
	m := ccmap.New(ccmap.Options{Names: s.Names()})
	*m.Meta() = scaledMeta(s.Meta(), w)
	m.SetWindow(s.Meta().Window)
	m.SetExact(false)
	self, recent := newCounterScaler(w), newCounterScaler(w)
	window, windowed := s.Recent()
	moved := make([]ccmap.NodeID, s.Len())
	for n := range s.Nodes() {
		if n.ID == root {
			continue
		}
		moved[n.ID] = m.Child(moved[n.Parent], n.Offset, n.Method)
		m.Add(moved[n.ID], self.scale(n.Self))
		if windowed {
			m.AddRecent(moved[n.ID], recent.scale(window.Node(n.ID).Self))
		}
	}
	addScaledBases(m, s, w)
	for _, p := range scaledPoints(s, w) {
		m.AddPoint(p)
	}
	return m
}

// scaledPoints returns the points times a weight, each such that its Count is
// right.
func scaledPoints(s *ccmap.Snapshot, w Weight) []ccmap.Point {
	points := slices.Clone(s.Points())
	for i := range points {
		p, times := &points[i], newScaler(w)
		if !p.KnowsValues() {
			p.Count = times.scale(p.Count)
			continue
		}
		p.Count = 0 // the map adds them up
		p.Values = slices.Clone(p.Values)
		for j := range p.Values {
			p.Values[j].Count = times.scale(p.Values[j].Count)
		}
		p.Other, p.Aged = times.scale(p.Other), times.scale(p.Aged)
		if p.Nulls > 0 {
			p.Nulls = times.scale(p.Nulls)
		}
	}
	return points
}

// addScaledBases adds what the removed nodes had counted.
func addScaledBases(m *ccmap.Map, s *ccmap.Snapshot, w Weight) {
	total, recent := newCounterScaler(w), newCounterScaler(w)
	for e := range s.PrunedEdges() {
		e.Total, e.Recent = total.scale(e.Total), recent.scale(e.Recent)
		m.AddPruned(e)
	}
	self, cumulative := newCounterScaler(w), newCounterScaler(w)
	recentSelf, recentCumulative := newCounterScaler(w), newCounterScaler(w)
	for p := range s.PrunedMethods() {
		p.Self, p.Cumulative = self.scale(p.Self), cumulative.scale(p.Cumulative)
		p.RecentSelf, p.RecentCumulative = recentSelf.scale(p.RecentSelf), recentCumulative.scale(p.RecentCumulative)
		m.AddPrunedMethod(p)
	}
}

// scaledMeta weighs what grows with the samples: the time they took, and what
// was lost beside them.
func scaledMeta(m ccmap.Meta, w Weight) ccmap.Meta {
	times := func(n uint64) uint64 {
		s := newScaler(w)
		return uint64(s.scale(int64(min(n, math.MaxInt64))))
	}
	span := func(d time.Duration) time.Duration {
		if d < 0 {
			return -time.Duration(times(-uint64(d)))
		}
		return time.Duration(times(uint64(d)))
	}
	m.Duration = span(max(m.Duration, 0))
	m.Known, m.Repeated = times(m.Known), times(m.Repeated)
	m.Loss = ccmap.Loss{
		Source:    times(m.Loss.Source),
		Queue:     times(m.Loss.Queue),
		Throttled: times(m.Loss.Throttled),
		Corrupt:   times(m.Loss.Corrupt),
		Orphaned:  times(m.Loss.Orphaned),

		Clock:       span(m.Loss.Clock),
		ClockTick:   m.Loss.ClockTick,
		Unaccounted: span(m.Loss.Unaccounted),
	}
	return m
}
