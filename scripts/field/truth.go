package main

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// split is how a profile divides its time among functions.
type split struct {
	samples int64
	part    map[string]float64 // by function, share of the whole profile, 0 to 1
	preempt float64            // share of runtime.asyncPreempt and its callees

	// What ccmapd says of the shares. Zero where samples are all that is known.
	precision compare.Precision
	counts    map[string]ccmap.Counters // by function
}

const asyncPreempt = "runtime.asyncPreempt"

// isAsyncPreempt matches both names that profilers give it.
func isAsyncPreempt(m ccmap.Method) bool { return strings.TrimSuffix(m.Name, ".abi0") == asyncPreempt }

// splitOf divides a profile among functions with such names: each has its callees' time, too.
func splitOf(s *ccmap.Snapshot, names []string) split {
	out := split{
		samples: s.Total().Samples, part: make(map[string]float64), preempt: shareOf(s, isAsyncPreempt) / 100,
		precision: compare.PrecisionOf(s, compare.ByTime), counts: make(map[string]ccmap.Counters),
	}
	for m := range s.Methods() {
		if name := m.Method().Name; slices.Contains(names, name) {
			out.counts[name] = out.counts[name].Add(m.Cumulative())
		}
	}
	for _, name := range names {
		out.part[name] = float64(out.counts[name].Time) / float64(max(s.Total().Time, 1))
	}
	return out
}

// stated returns the 95 % interval that ccmapd states of a function's share, 0 to 1.
func (s split) stated(name string) (low, high float64) {
	low, high = s.precision.Interval(s.counts[name])
	return low / 100, high / 100
}

// independent returns how many independent samples the stated interval of a share tells of.
func (s split) independent(name string) float64 {
	low, high := s.stated(name)
	part := s.part[name]
	return max(1, part*(1-part)*math.Pow(2*z95/(high-low), 2))
}

// splitOfSymbols divides samples of which each has one symbol.
func splitOfSymbols(symbols, names []string) split {
	out := split{samples: int64(len(symbols)), part: make(map[string]float64)}
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
// chance could have put it before the second, as ccmapd says it of rows of top.
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
	p, known := s.precision.Alike(s.counts[names[0]], s.counts[names[1]])
	return names[0], !known || p >= compare.DefaultLevel
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
// compares them. A measured share has the interval that ccmapd states. By the delta method, a foretold one has the
// variance of all the shares that it is made of: of as many samples as ccmapd's interval of that share in a tells of.
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
		low, high := b.stated(name)
		side := high - f.measured // towards the foretold share
		if f.foretold < f.measured {
			side = f.measured - low
		}
		f.half = math.Hypot(z95*math.Sqrt(variance/a.independent(name)), side)
		out = append(out, f)
	}
	return out
}
