package export

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Part is a profile on its way into the sum of many. It is read and checked,
// which may go on for many files at once; the goroutine that owns the sum adds
// it. A pprof profile never becomes a map of its own on that way, unless it is
// unusual: it has a window, or more samples than are listed.
type Part struct {
	m      *ccmap.Map // of a pprof profile all but its contexts
	pprof  *pprofFile // the contexts of m; nil: it has them
	limits ReadOptions
}

// Meta describes the profile, until the Part is added. The lists in it are the Part's.
func (p *Part) Meta() ccmap.Meta { return *p.m.Meta() }

// ReadPart reads a profile as [Read] does. Add the Part to a [Sum] once, or
// drop it.
func ReadPart(r io.Reader, o ReadOptions) (*Part, error) {
	o = o.WithDefaults()
	b := newBuilder(o)
	plain, format, release, err := open(r, b)
	defer release()
	if err != nil {
		return nil, fmt.Errorf("read profile: %w", err)
	}
	p := &Part{limits: o}
	if format == Pprof {
		err = p.readPprof(plain, b)
	} else {
		p.m, err = b.read(plain, format)
	}
	if err != nil {
		return nil, fmt.Errorf("read %v: %w", format, err)
	}
	return p, nil
}

func (p *Part) readPprof(r io.Reader, b *builder) error {
	file := newPprofFile(b)
	if err := file.decode(r, b, maxListed); err != nil {
		file.release()
		return err
	}
	p.m = b.m
	if file.adder == nil {
		p.pprof = file
		return nil
	}
	defer file.release()
	if err := file.addTo(b, once); err != nil {
		return err
	}
	_, err := b.finish()
	return err
}

// LookUp, before [Sum.Add], finds the methods that the sum has already; names is its
// table. The result is the same without. But the goroutine that has read the
// profile, and has its strings in the cache of its CPU, finds them in half the
// time, while the owner of the sum goes on adding to it.
func (p *Part) LookUp(names *ccmap.Names) {
	if p.pprof != nil {
		p.pprof.lookUpMethods(names)
	}
}

// Sum adds parts to a map. It remembers the stacks of parts before. The goroutine that calls it
// is the map's writer.
type Sum struct {
	m     *ccmap.Map
	known knownStacks
}

// NewSum returns a sum that adds to a map.
func NewSum(m *ccmap.Map) *Sum { return &Sum{m: m} }

// Memory returns how much of [ReadOptions].MaxMemory the sum takes: [MapMemory] of its map, and
// the stacks that it remembers.
func (s *Sum) Memory() int64 { return MapMemory(s.m) + s.known.bytes() }

// Add adds a profile, times its weight. Activations stay exact only with the weight 1. On an
// error the map is as before: the error wraps [ccmap.ErrUnlike] if the map has another unit.
func (s *Sum) Add(p *Part, w Weight) error {
	if w == (Weight{}) {
		w = once
	}
	if p.pprof != nil {
		defer p.pprof.release()
		if p.isPlain(s.m) {
			return p.addStacks(s, w)
		}
		if err := p.complete(); err != nil {
			return err
		}
	}
	if w.isOne() {
		return s.m.Merge(p.m.Snapshot())
	}
	return s.m.Merge(scaled(p.m.Snapshot(), w).Snapshot())
}

// complete gives the map its contexts.
func (p *Part) complete() error {
	b := newBuilder(p.limits)
	b.m, b.memory = p.m, &p.pprof.memory
	err := p.pprof.addTo(b, once)
	if err == nil {
		_, err = b.finish()
	}
	if err != nil {
		return fmt.Errorf("read %v: %w", Pprof, err)
	}
	return nil
}

// isPlain reports whether nothing can go wrong in adding the contexts to the sum
// one by one: there are no windows, nothing pruned, and surely no more nodes, methods
// and memory than there may be.
func (p *Part) isPlain(sum *ccmap.Map) bool {
	sets := len(p.pprof.stacks.program.sets)
	nodes := p.pprof.stacks.added.frames + 2*len(p.pprof.stacks.samples) + sets
	methods := len(p.pprof.functions.entries) + len(p.pprof.locations.entries) + 1 + sets
	const node, method = 40, 250 // bytes, without texts
	memory := viewShare*int64(nodes)*node + listShare*(int64(methods)*method+p.pprof.texts()) +
		int64(len(p.pprof.locations.entries))*int64(unsafe.Sizeof(stackLink{}))
	return sum.Meta().Window == 0 && p.m.Meta().Window == 0 &&
		nodes <= p.limits.MaxNodes && methods <= p.limits.MaxMethods && sum.Len()+nodes <= math.MaxUint32 &&
		memory <= p.pprof.memory.limit-p.pprof.memory.held &&
		!slices.ContainsFunc(p.pprof.functions.entries, isPruned)
}

func isPruned(f pprofFunction) bool { return f.methodName() == ccmap.PrunedName }

// addStacks adds the contexts, then all else.
func (p *Part) addStacks(s *Sum, w Weight) error {
	sum := s.m
	if len(p.pprof.stacks.samples) > 0 {
		if err := sum.SetUnit(p.m.Meta().Unit); err != nil {
			return err
		}
	}
	b := &builder{
		m: sum, known: s.known.of(sum),
		limits: ReadOptions{MaxMethods: math.MaxInt, MaxNodes: math.MaxInt}, memory: &memory{limit: math.MaxInt64},
	}
	if err := p.pprof.addTo(b, w); err != nil {
		return fmt.Errorf("read %v: %w", Pprof, err)
	}
	if !w.isOne() {
		*p.m.Meta() = scaledMeta(*p.m.Meta(), w)
		p.m.SetPoints(ccmap.OriginBurst, scaledPoints(p.m.Snapshot(), w))
		p.m.SetExact(false)
	}
	return sum.Merge(p.m.Snapshot()) // which keeps the sum within its budget
}

// Weight is how often a profile counts in a sum, exactly: a decimal number over
// 0, for example 2 or 0.5. The zero Weight is 1.
type Weight struct{ num, den uint64 }

// once is the weight of a profile that counts as it is.
var once = Weight{1, 1}

// A weight may have maxWhole digits before the point and maxDecimals after it, so that
// both numbers fit.
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

// scaler multiplies counts with a weight, one after the other. Each makes good the
// rounding of the one before, so that the sum is the nearest whole number to the exact
// sum.
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
// activations are an estimate, and no longer exact.
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
	addScaledEvicted(m, s, w)
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

// addScaledEvicted adds the counts of the removed nodes.
func addScaledEvicted(m *ccmap.Map, s *ccmap.Snapshot, w Weight) {
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

// scaledMeta multiplies the figures that grow with the samples: the time they took, and
// the losses.
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
	m.Elided.Samples, m.Elided.Uncounted = times(m.Elided.Samples), times(m.Elided.Uncounted)
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
