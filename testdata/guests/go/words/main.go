// Command words counts the words of a text in a map: strings, hashing, sorting.
package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/testdata/guests/go/rounds"
)

// text makes n words of two syllables, always the same.
func text(n int) string {
	syllables := []string{"ba", "do", "ke", "li", "mu", "na", "po", "ri", "su", "te", "wa"}
	var b strings.Builder
	state := uint32(1)
	next := func() string {
		state = state*1664525 + 1013904223
		return syllables[state>>16%uint32(len(syllables))]
	}
	for range n {
		b.WriteString(next())
		b.WriteString(next())
		b.WriteByte(' ')
	}
	return b.String()
}

func count(text string) map[string]int {
	counts := make(map[string]int)
	for word := range strings.FieldsSeq(text) {
		counts[strings.ToUpper(word)]++
	}
	return counts
}

// ranked returns the words, the most frequent first.
func ranked(counts map[string]int) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
}

func main() {
	text := text(20_000)
	var counts map[string]int
	var order []string
	rounds.Repeat(func() {
		counts = count(text)
		order = ranked(counts)
	})
	fmt.Println("words", len(order), order[0], counts[order[0]])
}
