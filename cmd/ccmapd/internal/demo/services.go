package demo

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// board is a chess board on which queens are placed row by row.
type board struct {
	size            int
	columns         uint32
	rising, sinking uint64 // diagonals
}

// place counts the ways to put queens into row and all later rows.
func (b *board) place(row int, t *tally) int {
	t[callPlace]++
	if row == b.size {
		return 1
	}
	ways := 0
	for column := range b.size {
		if b.free(row, column) {
			b.flip(row, column)
			ways += b.place(row+1, t)
			b.flip(row, column)
		}
	}
	return ways
}

// free and flip are small enough to be inlined.

func (b *board) free(row, column int) bool {
	return b.columns>>column&1 == 0 && b.rising>>(row+column)&1 == 0 && b.sinking>>(row-column+b.size)&1 == 0
}

func (b *board) flip(row, column int) {
	b.columns ^= 1 << column
	b.rising ^= 1 << (row + column)
	b.sinking ^= 1 << (row - column + b.size)
}

// shape has two implementations: calls of area are bimorphic.
type shape interface {
	area(t *tally) float64
}

type (
	circle struct{ radius float64 }
	square struct{ side float64 }
)

func (c circle) area(t *tally) float64 {
	t[callCircle]++
	return math.Pi * math.Pow(c.radius, 2)
}

func (s square) area(t *tally) float64 {
	t[callSquare]++
	return math.Pow(s.side, 2)
}

// shapes returns n shapes. Every fourth is a circle.
func shapes(n int) []shape {
	all := make([]shape, n)
	for i := range all {
		if size := float64(i%17 + 1); i%4 == 3 {
			all[i] = circle{size}
		} else {
			all[i] = square{size}
		}
	}
	return all
}

func totalArea(all []shape, t *tally) float64 {
	var sum float64
	for _, s := range all {
		sum += s.area(t)
	}
	return sum
}

// counter counts keys of any type.
type counter[K cmp.Ordered] map[K]int

// add counts a key. Its one call of the map is inlined into the callers.
func (c counter[K]) add(key K) { c[key]++ }

// top returns the n most frequent keys. Equally frequent ones are in their order.
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
