package valueprof

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkWriters counts a stream of 8 values on one thread and on two: with a
// table for each writer; with one that both write as they please, as the seed
// does; and with one whose counters are atomic. Rounds of one and two writers
// alternate, so that the machine is the same for both. Of two writers only the
// time counts in which both were at work at once: as much of theirs as at-once
// says. What is lost is of all adds of two.
func BenchmarkWriters(b *testing.B) {
	s := uniform(8)
	b.Run("table=owned", func(b *testing.B) {
		shared, into := NewShared(8, HashAuto), New(8, HashAuto)
		locals := []*Local{shared.Join(), shared.Join()}
		alternate(b, len(s.stream), func(w int) { countLocal(locals[w], s.stream) }, func() uint64 {
			shared.Collect(into)
			for _, l := range locals {
				l.Park()
			}
			shared.Collect(into)
			return into.Total()
		})
	})
	b.Run("table=plain", func(b *testing.B) {
		t := filled(s)
		alternate(b, len(s.stream), func(int) { count(t, s.stream) }, t.Matched)
	})
	b.Run("table=atomic", func(b *testing.B) {
		t := filled(s)
		alternate(b, len(s.stream), func(int) { countAtomic(t, s.stream) }, t.Matched)
	})
}

// filled returns a table that holds all values of a stream, so that no two
// writers insert at once.
func filled(s drawn) *Table {
	t := New(len(s.values), HashAuto)
	for _, v := range s.values {
		t.Add(v)
	}
	return t
}

//go:noinline
func countLocal(l *Local, stream []uint64) {
	for _, v := range stream {
		if !l.Hit(v) {
			l.Miss(v)
		}
	}
}

//go:noinline
func countAtomic(t *Table, stream []uint64) {
	for _, v := range stream {
		s := t.at(t.position(v))
		if s.Value != v {
			panic("not held")
		}
		atomic.AddUint64(&s.Count, 1)
	}
}

// streams is how often a writer counts the stream in a round, for about 10 ms, and
// enough how many of these must have run at once for a median that says something:
// on a busy machine there may be none, and then no figure for two writers.
const (
	streams = 2500
	enough  = 100
)

func alternate(b *testing.B, length int, count func(writer int), total func() uint64) {
	before, added, rounds := total(), 0, 0
	var took [3][]time.Duration
	for b.Loop() {
		for writers := 1; writers <= 2; writers++ {
			took[writers] = append(took[writers], together(writers, count)...)
			added += writers * streams * length
		}
		rounds++
	}
	perHit := func(writers int) float64 { return float64(median(took[writers])) / float64(length) }
	b.ReportMetric(perHit(1), "ns/hit-1-writer")
	lost := float64(added) - float64(total()-before)
	b.ReportMetric(100*lost/float64(rounds*2*streams*length), "%lost")
	b.ReportMetric(100*float64(len(took[2]))/float64(rounds*2*streams), "%at-once")
	if len(took[2]) >= enough {
		b.ReportMetric(perHit(2), "ns/hit-2-writers")
		b.ReportMetric(perHit(2)/perHit(1), "two/one")
	}
}

// A runner is one writer's part of a round.
type runner struct {
	took []time.Duration // of each stream that counts
	done atomic.Int64    // streams
	_    [lineBytes]byte
}

// together lets one or two writers count at once, and returns the time of each
// stream; of two writers, of each in whose course the other completed one or two:
// none were completed by one that did not run, and many while this one did not.
func together(writers int, count func(writer int)) []time.Duration {
	var runners [2]runner
	var group sync.WaitGroup
	var waiting atomic.Int32
	waiting.Store(int32(writers))
	for w := range writers {
		group.Go(func() {
			for waiting.Add(-1); waiting.Load() > 0; {
				runtime.Gosched()
			}
			me, other := &runners[w], &runners[1-w]
			for range streams {
				before, start := other.done.Load(), time.Now()
				count(w)
				took := time.Since(start)
				if n := other.done.Load() - before; writers == 1 || n == 1 || n == 2 {
					me.took = append(me.took, took)
				}
				me.done.Add(1)
			}
		})
	}
	group.Wait()
	return append(runners[0].took, runners[1].took...)
}

// BenchmarkCollect hands over and merges the tables of some writers, each of which
// has just added 8 values: the time of that is in it.
func BenchmarkCollect(b *testing.B) {
	for _, writers := range []int{1, 64} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			s := uniform(8)
			shared, into := NewShared(8, HashAuto), New(8, HashAuto)
			locals := make([]*Local, writers)
			for i := range locals {
				locals[i] = shared.Join()
			}
			b.ReportAllocs()
			for b.Loop() {
				for _, l := range locals {
					for _, v := range s.values {
						l.Add(v)
					}
				}
				shared.Collect(into)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*writers), "ns/writer")
		})
	}
}
