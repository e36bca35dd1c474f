package main

import (
	"fmt"
	"io"
	"slices"
)

// interval is a median with its 95 % confidence interval.
type interval struct{ low, median, high float64 }

func (i interval) String() string {
	if i == (interval{}) {
		return "–" // nothing was measured
	}
	return fmt.Sprintf("%+.1f %% (%+.1f … %+.1f)", 100*(i.median-1), 100*(i.low-1), 100*(i.high-1))
}

// medianOf takes the interval from the values themselves, for any distribution: the ranks
// k and n+1-k hold the median unless fewer than k of n fair coins fall on one side.
func medianOf(values []float64) interval {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	if n == 0 {
		return interval{}
	}
	k := medianRank(n)
	return interval{sorted[k-1], (sorted[(n-1)/2] + sorted[n/2]) / 2, sorted[n-k]}
}

// medianRank returns the largest k, at least 1, with P(B < k) <= 2.5 % for B
// binomial of n fair coins. Below six values the whole range has less than 95 %.
func medianRank(n int) int {
	probability, below := 1.0, 0.0
	for range n {
		probability /= 2
	}
	for k := 0; ; k++ {
		below += probability
		if below > 0.025 {
			return max(1, k)
		}
		probability *= float64(n-k) / float64(k+1)
	}
}

func (r row) cpu(way string) interval {
	values := make([]float64, 0, len(r.ways[way]))
	for _, p := range r.ways[way] {
		values = append(values, p.cpu)
	}
	return medianOf(values)
}

// printTable writes the medians of processor time as a table of Markdown.
func printTable(w io.Writer, rows []row) {
	fmt.Fprintln(w, "\n| guest | plain again | polls alone | 50 ms | 10 ms | 1 ms | listener | its added time against 10 ms"+
		" | rewriting, MB/s | bytes | compiling |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
	for _, r := range rows {
		fmt.Fprintf(w, "| %s |", r.program)
		for _, way := range []string{wayPlain, wayPolls, way50, way10, way1, wayListener} {
			fmt.Fprintf(w, " %v |", r.cpu(way))
		}
		fmt.Fprintf(w, " %s | %.0f | %.2fx | %.2fx |\n", added(r.cpu(wayListener), r.cpu(way10)),
			r.compile.speed, r.compile.growth, r.compile.time)
	}
}

// added gives the additional time of a way over another: by the medians, and in brackets
// the least that the ends of both intervals leave.
func added(more, less interval) string {
	if more == (interval{}) || less == (interval{}) {
		return "–"
	}
	if less.high <= 1 {
		return "no time is added at 10 ms"
	}
	least := max(0, more.low-1) / (less.high - 1)
	if less.median <= 1 {
		return fmt.Sprintf("(≥ %.0fx)", least)
	}
	return fmt.Sprintf("%.0fx (≥ %.0fx)", (more.median-1)/(less.median-1), least)
}
