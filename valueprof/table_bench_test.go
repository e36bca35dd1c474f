package valueprof

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// BenchmarkHit counts a stream of 4, 8 or 16 equally frequent heap pointers, with
// tables that hold them all and with alternatives.
//
//	go test -run '^$' -bench Hit -count 5 ./valueprof
func BenchmarkHit(b *testing.B) {
	for _, n := range []int{4, 8, 16} {
		s := uniform(n)
		for _, h := range Hashes() {
			t := New(n, h)
			hits(b, h.String(), s, func() { count(t, s.stream) }, t.Bytes)
		}
		if usePext {
			t := New(n, HashPext)
			hits(b, "pext-alone", s, func() { countPext(t, s.stream) }, t.Bytes)
		}
		m := make(map[uint64]uint64)
		hits(b, "map", s, func() { countMap(m, s.stream) }, nil)
		l := make(linear, 0, n)
		hits(b, "linear", s, func() { countLinear(&l, s.stream) }, nil)
		ss := newSpaceSaving(n)
		hits(b, "spacesaving", s, func() { countSpaceSaving(ss, s.stream) }, nil)
	}
}

// hits reports the median time of a stream, divided by its length. The time is short,
// so the median excludes other work of the machine.
func hits(b *testing.B, counter string, s drawn, count func(), bytes func() int) {
	b.Run(fmt.Sprintf("counter=%s/values=%d", counter, len(s.values)), func(b *testing.B) {
		b.ReportAllocs()
		took := make([]time.Duration, 0, 1<<16)
		for b.Loop() {
			start := time.Now()
			count()
			if len(took) < cap(took) {
				took = append(took, time.Since(start))
			}
		}
		b.ReportMetric(float64(median(took))/float64(len(s.stream)), "ns/hit")
		if bytes != nil {
			b.ReportMetric(float64(bytes()), "bytes/table")
		}
	})
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// countPext costs as much as a table that had no other hash.
//
//go:noinline
func countPext(t *Table, stream []uint64) {
	for _, v := range stream {
		if !hitPext(t, v) {
			t.Miss(v)
		}
	}
}

//go:noinline
func countMap(m map[uint64]uint64, stream []uint64) {
	for _, v := range stream {
		m[v]++
	}
}

// linear is a table without an index.
type linear []Value

//go:noinline
func countLinear(l *linear, stream []uint64) {
next:
	for _, v := range stream {
		for i := range *l {
			if s := &(*l)[i]; s.Value == v {
				s.Count++
				continue next
			}
		}
		*l = append(*l, Value{Value: v, Count: 1})
	}
}

//go:noinline
func countSpaceSaving(s *spaceSaving, stream []uint64) {
	for _, v := range stream {
		s.Add(v)
	}
}

// BenchmarkOther counts a stream of 16 values in 8 slots: with tables, with a map that
// grows to hold all values, and with Space-Saving, where each value without a slot
// takes a slot from another.
func BenchmarkOther(b *testing.B) {
	s := uniform(16)
	for _, h := range []Hash{HashPext, HashMultiply} {
		t := New(8, h)
		hits(b, h.String(), s, func() { count(t, s.stream) }, t.Bytes)
	}
	m := make(map[uint64]uint64)
	hits(b, "map", s, func() { countMap(m, s.stream) }, nil)
	ss := newSpaceSaving(8)
	hits(b, "spacesaving", s, func() { countSpaceSaving(ss, s.stream) }, nil)
}

// BenchmarkRebuild fills tables with sets of heap pointers, and reports the mean and
// the worst time of the insertions that rearrange. Each time is the least of five
// fillings with the same set, to exclude other work of the machine, and includes
// reading the clock. Bit permute and shift select their bits as PEXT does.
func BenchmarkRebuild(b *testing.B) {
	for _, n := range []int{8, 16, MaxCapacity} {
		for _, h := range []Hash{HashPext, HashMultiply} {
			b.Run(fmt.Sprintf("hash=%s/values=%d", h, n), func(b *testing.B) {
				var all, worst time.Duration
				var rebuilds, tables, bytes int
				for b.Loop() {
					r := rand.New(rand.NewPCG(2, uint64(n)))
					for range 500 {
						t, took := timeFilling(h, pointers(r, n))
						for _, d := range took {
							all += d
							worst = max(worst, d)
						}
						rebuilds += len(took)
						bytes += t.Bytes()
						tables++
					}
				}
				b.ReportMetric(float64(all.Nanoseconds())/float64(rebuilds), "ns/rebuild")
				b.ReportMetric(float64(worst.Nanoseconds()), "ns/worst")
				b.ReportMetric(float64(rebuilds)/float64(tables), "rebuilds/table")
				b.ReportMetric(float64(bytes)/float64(tables), "bytes/table")
			})
		}
	}
}

// timeFilling returns a table with the values, and the time of each insertion
// that rearranged it.
func timeFilling(h Hash, values []uint64) (t *Table, took []time.Duration) {
	for round := range 5 {
		t = New(len(values), h)
		rebuilds := 0
		for _, v := range values {
			key := t.key
			start := time.Now()
			t.Miss(v)
			d := time.Since(start)
			switch {
			case t.key == key:
				continue
			case round == 0:
				took = append(took, d)
			default:
				took[rebuilds] = min(took[rebuilds], d)
			}
			rebuilds++
		}
	}
	return t, took
}

// A spaceSaving is the peer of a [Table] with as many counters: the algorithm of
// Metwally, Agrawal and El Abbadi ("Efficient Computation of Frequent and Top-k
// Elements in Data Streams", ICDT 2005). A value without a counter takes over the
// counter of the least frequent value with its count, so every count is too high by at
// most the least count. The counters are sorted by count: a search meets the frequent
// ones first.
type spaceSaving struct {
	counters []Value // descending
	capacity int
}

func newSpaceSaving(capacity int) *spaceSaving {
	return &spaceSaving{counters: make([]Value, 0, capacity), capacity: capacity}
}

// Add counts v once.
func (s *spaceSaving) Add(v uint64) {
	i := 0
	for i < len(s.counters) && s.counters[i].Value != v {
		i++
	}
	switch {
	case i < len(s.counters):
	case i < s.capacity:
		s.counters = append(s.counters, Value{Value: v})
	default:
		i--
		s.counters[i].Value = v
	}
	s.counters[i].Count++
	s.rise(i)
}

// rise moves a counter before smaller ones.
func (s *spaceSaving) rise(i int) {
	c := s.counters[i]
	for ; i > 0 && s.counters[i-1].Count < c.Count; i-- {
		s.counters[i] = s.counters[i-1]
	}
	s.counters[i] = c
}

// AppendValues appends the counters to dst, highest count first, ties by value.
func (s *spaceSaving) AppendValues(dst []Value) []Value {
	values := slices.Clone(s.counters)
	slices.SortFunc(values, Value.Compare)
	return append(dst, values...)
}
