package workload

import (
	"cmp"
	"slices"
	"strings"
)

// counter counts keys of any type.
type counter[K cmp.Ordered] map[K]int

// add counts a key. Its one call of the map is inlined into the callers.
func (c counter[K]) add(key K) { c[key]++ }

// top returns the n most frequent keys, equally frequent ones in their order.
func (c counter[K]) top(n int) []K {
	keys := make([]K, 0, len(c))
	for k := range c {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b K) int {
		return cmp.Or(cmp.Compare(c[b], c[a]), cmp.Compare(a, b))
	})
	return keys[:min(n, len(keys))]
}

// countWords returns the most frequent words of a text and word lengths.
func countWords(text string, t *tally) (words []string, lengths []int) {
	t[callWords]++
	byWord, byLength := counter[string]{}, counter[int]{}
	for word := range strings.FieldsSeq(text) {
		word = strings.ToLower(strings.Trim(word, ".,;"))
		byWord.add(word)
		byLength.add(len(word))
	}
	return byWord.top(3), byLength.top(3)
}
