package compare

import (
	"cmp"
	"slices"
)

// holm corrects probabilities for how many they are (Holm, Scand. J. Statist. 6,
// 1979): the chance that a true null hypothesis has one under α, among all of
// them, is at most α, however they depend on each other. Paths depend strongly,
// as one contains another; corrections that bound the share of false findings
// (Benjamini and Hochberg) would let one real change, which shows in a hundred
// paths, wave others through.
func holm(p []float64) {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	least := 0.0
	for rank, i := range order {
		least = max(least, min(1, p[i]*float64(len(p)-rank)))
		p[i] = least
	}
}
