package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// split is how a profile divides its time among functions.
type split struct {
	samples int64
	part    map[string]float64 // by function, share of the whole profile, 0 to 1
	preempt float64            // share of runtime.asyncPreempt and its callees
}

const asyncPreempt = "runtime.asyncPreempt"

// isAsyncPreempt matches both names that profilers give it.
func isAsyncPreempt(m ccmap.Method) bool { return strings.TrimSuffix(m.Name, ".abi0") == asyncPreempt }

// splitOf divides a profile among functions with such names: each has its callees' time, too.
func splitOf(s *ccmap.Snapshot, names []string) split {
	out := split{s.Total().Samples, make(map[string]float64), shareOf(s, isAsyncPreempt) / 100}
	for _, name := range names {
		out.part[name] = shareOf(s, func(m ccmap.Method) bool { return m.Name == name }) / 100
	}
	return out
}

// splitOfSymbols divides samples of which each has one symbol.
func splitOfSymbols(symbols, names []string) split {
	out := split{int64(len(symbols)), make(map[string]float64), 0}
	each := 1 / float64(max(1, len(symbols)))
	for _, name := range symbols {
		if slices.Contains(names, name) {
			out.part[name] += each
		}
		if isAsyncPreempt(ccmap.Method{Name: name}) {
			out.preempt += each
		}
	}
	return out
}

// truthOf returns the functions' true shares, which are in proportion to their weights.
func truthOf(names []string, weights []int) map[string]float64 {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	out := make(map[string]float64)
	for i, w := range weights {
		out[names[i]] = float64(w) / float64(sum)
	}
	return out
}

// farthest returns the function whose share is farthest from the truth, and by how many points.
func (s split) farthest(truth map[string]float64) (name string, points float64) {
	name = slices.MaxFunc(slices.Sorted(maps.Keys(truth)), func(a, b string) int {
		return cmp.Compare(math.Abs(s.part[a]-truth[a]), math.Abs(s.part[b]-truth[b]))
	})
	return name, 100 * (s.part[name] - truth[name])
}

// withinPoints is how far a share may be off, in points: 1 at 10,000 samples or more, and as many
// standard deviations for fewer.
func withinPoints(samples int64) float64 {
	return math.Sqrt(10000 / float64(min(10000, max(1, samples))))
}

// hottest returns the function with the largest share, the first by name of equal ones, and whether
// chance could have put it before the second: their difference has less than 1.96 standard deviations.
func (s split) hottest() (name string, tie bool) {
	names := slices.SortedFunc(maps.Keys(s.part), func(a, b string) int {
		return cmp.Or(cmp.Compare(s.part[b], s.part[a]), cmp.Compare(a, b))
	})
	if len(names) == 0 {
		return "", true
	}
	if len(names) == 1 {
		return names[0], false
	}
	n := float64(s.samples)
	first, second := n*s.part[names[0]], n*s.part[names[1]]
	return names[0], first-second < z95*math.Sqrt(first+second)
}

const z95 = 1.959964 // two-sided

// hottests counts runs by their hottest function.
type hottests struct {
	runs, ties int
	by         map[string]int
}

func (h *hottests) add(s split) {
	if h.by == nil {
		h.by = make(map[string]int)
	}
	name, tie := s.hottest()
	h.runs++
	h.ties += one(tie)
	h.by[name]++
}

// most is the number of runs with the most frequent hottest function.
func (h *hottests) most() int { return slices.Max(slices.Collect(maps.Values(h.by))) }

// follow is how a function's share followed a slowdown.
type follow struct {
	name                       string
	before, foretold, measured float64 // shares, 0 to 1
	half                       float64 // half of the 95 % interval of measured − foretold
}

func (f follow) within() bool { return math.Abs(f.measured-f.foretold) <= f.half }

// slowed foretells the shares of b, in which functions take factor as long as in a (1 where it has none), and
// compares them. By the delta method: a foretold share has the variance of all the shares that it is made of. It
// takes samples to be independent.
func slowed(a, b split, factor map[string]float64) []follow {
	factorOf := func(name string) float64 { return cmp.Or(factor[name], 1) }
	sum := 1.0 // of the whole profile's time, in units of a's
	for name, part := range a.part {
		sum += part * (factorOf(name) - 1)
	}
	var out []follow
	for _, name := range slices.Sorted(maps.Keys(a.part)) {
		f := follow{name: name, before: a.part[name], measured: b.part[name], foretold: a.part[name] * factorOf(name) / sum}
		slope := func(other string, k float64) float64 {
			s := -f.foretold * k / sum
			if other == name {
				s += k / sum
			}
			return s
		}
		variance, rest := 0.0, 1.0
		for other, part := range a.part {
			variance += part * math.Pow(slope(other, factorOf(other)), 2)
			rest -= part
		}
		variance += max(0, rest) * math.Pow(slope("", 1), 2)
		f.half = z95 * math.Sqrt(variance/float64(a.samples)+f.measured*(1-f.measured)/float64(b.samples))
		out = append(out, f)
	}
	return out
}
