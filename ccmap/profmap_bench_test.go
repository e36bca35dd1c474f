package ccmap_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// profMap does what the map of stacks in runtime/pprof does (profMap in runtime/pprof/map.go, Go
// 1.26): it hashes the words of a stack, and compares the whole stack with each entry of
// that hash. New entries and their words come from blocks. It has no trie: a
// profile of whole stacks is all that it can answer.
type profMap struct {
	entries map[uint64]*profEntry
	free    []profEntry
	words   []uint64
	first   *profEntry
	last    *profEntry
}

type profEntry struct {
	sameHash *profEntry
	next     *profEntry // in order of arrival
	stack    []uint64
	tag      uintptr
	count    int64
}

func (m *profMap) add(stack []uint64, tag uintptr, count int64) {
	hash := profHash(stack, tag)
	var before *profEntry
	for e := m.entries[hash]; e != nil; before, e = e, e.sameHash {
		if e.tag == tag && slices.Equal(e.stack, stack) {
			if before != nil {
				before.sameHash, e.sameHash = e.sameHash, m.entries[hash]
				m.entries[hash] = e
			}
			e.count += count
			return
		}
	}
	e := m.insert(hash, stack)
	e.tag, e.count = tag, count
}

// profHash rotates by a byte and adds a multiple, for each word and for the tag.
func profHash(stack []uint64, tag uintptr) (h uint64) {
	for _, word := range stack {
		h = h<<8 | h>>56
		h += word * 41
	}
	return (h<<8 | h>>56) + uint64(tag)*41
}

func (m *profMap) insert(hash uint64, stack []uint64) *profEntry {
	if len(m.free) == 0 {
		m.free = make([]profEntry, 128)
	}
	if len(m.words) < len(stack) {
		m.words = make([]uint64, 1024)
	}
	e := &m.free[0]
	m.free = m.free[1:]
	e.stack = m.words[:len(stack):len(stack)]
	m.words = m.words[len(stack):]
	copy(e.stack, stack)
	if m.entries == nil {
		m.entries = make(map[uint64]*profEntry)
	}
	e.sameHash, m.entries[hash] = m.entries[hash], e
	if m.first == nil {
		m.first, m.last = e, e
	}
	m.last.next, m.last = e, e
	e.next = nil
	return e
}

// words returns the stacks of samples as runtime/pprof gets them, one word a frame.
func words(samples []ccmap.Sample) [][]uint64 {
	stacks := make([][]uint64, len(samples))
	for i, s := range samples {
		stacks[i] = make([]uint64, len(s.Frames))
		for j, f := range s.Frames {
			stacks[i][j] = uint64(f.Offset)<<32 | uint64(f.Method)
		}
	}
	return stacks
}

// BenchmarkAgainstProfMap folds stacks as often as profMap adds them, the two in turn. The
// samples have marks or none, or each is of another goroutine.
func BenchmarkAgainstProfMap(b *testing.B) {
	for _, w := range []struct {
		name    string
		passes  int
		samples func(*callGraph) []ccmap.Sample
	}{
		{"stacks=200/depth=30-60", large(500), func(g *callGraph) []ccmap.Sample { return g.stacks(200, 30, 60) }},
		{"stacks=100000/depth=60", 1, func(g *callGraph) []ccmap.Sample { return g.stacks(large(100_000), 60, 60) }},
		{"stacks=1000/correlated", large(100), func(g *callGraph) []ccmap.Sample { return g.correlated(1000, 60) }},
	} {
		for _, how := range []struct {
			name  string
			alter func(*ccmap.Sample, int)
		}{
			{"marks=true", func(*ccmap.Sample, int) {}},
			{"marks=false", func(s *ccmap.Sample, _ int) { s.Fresh = ccmap.FreshUnknown }},
			{"goroutines", func(s *ccmap.Sample, i int) { s.Goroutine = uint64(i + 1) }},
		} {
			b.Run(fmt.Sprintf("%s/%s", w.name, how.name), func(b *testing.B) {
				g := newCallGraph(2000)
				samples := w.samples(g)
				for i := range samples {
					how.alter(&samples[i], i)
				}
				stacks := words(samples)
				m, rival := ccmap.New(ccmap.Options{Names: g.names, Seed: 1}), new(profMap)
				againstProfMap(b, frames(samples)*w.passes, func() {
					for range w.passes {
						m.FoldBatch(samples)
					}
				}, func() {
					for range w.passes {
						for i, s := range stacks {
							rival.add(s, 0, samples[i].Weight)
						}
					}
				})
				b.ReportMetric(float64(m.Bytes())/float64(m.Len()), "B/node")
			})
		}
	}
	b.Run("novel", func(b *testing.B) {
		g := newCallGraph(2000)
		samples := g.stacks(large(30_000), 60, 60)
		stacks := words(samples)
		var m *ccmap.Map
		var rival *profMap
		againstProfMap(b, frames(samples), func() {
			m = ccmap.New(ccmap.Options{Names: g.names, Seed: 1})
			m.FoldBatch(samples)
		}, func() {
			rival = new(profMap)
			for i, s := range stacks {
				rival.add(s, 0, samples[i].Weight)
			}
		})
		b.ReportMetric(float64(m.Bytes())/float64(m.Len()), "B/node")
	})
}

// againstProfMap runs fold and rival in turn, which take the same number of frames. It runs both
// twice before, so that known stacks are known.
func againstProfMap(b *testing.B, frames int, fold, rival func()) {
	for range 2 {
		fold()
		rival()
	}
	var own, others time.Duration
	for b.Loop() {
		own += timed(fold)
		others += timed(rival)
	}
	n := float64(b.N) * float64(frames)
	b.ReportMetric(float64(own)/n, "cpu-ns/frame")
	b.ReportMetric(float64(others)/n, "rival-ns/frame")
	b.ReportMetric(float64(own)/float64(others), "x-rival")
}
