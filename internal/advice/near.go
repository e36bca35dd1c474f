package advice

import (
	"cmp"
	"slices"
	"strings"
)

// Near returns the names that typos calls near to what a user has written, those with the fewest typing errors first.
func Near(names []string, typos func(name string) (n int, near bool)) []string {
	type meant struct {
		name  string
		typos int
	}
	var found []meant
	for _, name := range names {
		if n, near := typos(name); near {
			found = append(found, meant{name, n})
		}
	}
	slices.SortStableFunc(found, func(a, b meant) int { return cmp.Compare(a.typos, b.typos) })
	sorted := make([]string, len(found))
	for i, m := range found {
		sorted[i] = m.name
	}
	return sorted
}

// NearText returns the names that contain a text, or that are or begin with something a few typing errors from it, the
// nearest first. Case does not matter.
func NearText(names []string, text string) []string {
	text = strings.ToLower(text)
	return Near(names, func(name string) (n int, near bool) {
		name = strings.ToLower(name)
		n = Typos(name, text)
		begin := Typos(name[:min(len(name), len(text))], text)
		return n, strings.Contains(name, text) || min(n, begin) <= MostTypos(text)
	})
}

// MostTypos returns how many typing errors a text may have: in every three bytes one.
func MostTypos(text string) int { return (len(text) + 1) / 3 }

// Typos counts the bytes to insert, delete or replace, and the neighbours to exchange, between a and b, where no part
// is changed twice (the optimal string alignment of Damerau and Levenshtein). It compares the first 64 bytes of each.
func Typos(a, b string) int {
	const most = 64
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	var rows [3][most + 1]int // of a[:i-1], a[:i] and a[:i+1]; the distances to each b[:j]
	before, above, row := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		above[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			row[j+1] = min(above[j]+differ(a[i], b[j]), row[j]+1, above[j+1]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}

func differ(a, b byte) int {
	if a == b {
		return 0
	}
	return 1
}
