package compare

import (
	"math"
	"math/rand/v2"
)

// few is the number of samples up to which a context is asked how often it was
// visited: found anew, rather than again.
const few = 16

// visits has, by number of samples n, and for each number of visits k ≤ n, how
// probable it is that a context with n samples was visited k times or fewer. It is
// nil where nothing repeats. Where nothing can be said, all of a row is 0.
//
// If a sample is repeated with probability r, a context visited k times has n
// samples with probability C(n−1, k−1)·(1−r)^k·r^(n−k). How many contexts have n
// samples is known; from n = 1 on, this tells how many were visited n times. They
// are taken to be no more than those visited once less often: most contexts are
// rare. So a context with two samples was as a rule visited once, where one of
// thousands has its share of repetitions.
type visits [][few + 1]float64

func newVisits(r float64, at []counted) visits {
	var contexts, visited [few + 1]float64
	for _, c := range at {
		if c.things <= few {
			contexts[c.things]++
		}
	}
	v := make(visits, few+1)
	for n := 1; n <= few; n++ {
		left := contexts[n]
		for k := 1; k < n; k++ {
			left -= visited[k] * sampled(n, k, r)
		}
		visited[n] = max(left, 0) / sampled(n, n, r)
		if n > 1 {
			visited[n] = min(visited[n], visited[n-1])
		}
		for k := 1; k <= n; k++ {
			v[n][k] = v[n][k-1] + visited[k]*sampled(n, k, r)
		}
		if all := v[n][n]; all > 0 {
			for k := range v[n] {
				v[n][k] /= all
			}
		}
	}
	return v
}

// sampled returns how probable n samples are of a context visited k times.
func sampled(n, k int, r float64) float64 {
	ways := 1.0
	for i := 1; i < k; i++ {
		ways = ways * float64(n-i) / float64(i)
	}
	return ways * math.Pow(1-r, float64(k)) * math.Pow(r, float64(n-k))
}

// draw draws how often a context with n samples was visited, if anything is known
// of that.
func (v visits) draw(n uint64, r *rand.Rand) (k uint64, known bool) {
	if v == nil || n > few || v[n][n] == 0 {
		return 0, false
	}
	for p := r.Float64(); k < n && v[n][k] <= p; {
		k++
	}
	return k, true
}
