package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// unknownMethod returns an error that names the methods closest to text.
func unknownMethod(all []string, text string) error {
	err := fmt.Errorf("no method %q in the profile", text)
	if near := nearNames(all, text); len(near) > 0 {
		return withHint(err, "Near it: %s", listNames(near))
	}
	if strings.Contains(text, pathSeparator) {
		return withHint(err, "A path is written with spaces around the separators: 'A > B > C'.")
	}
	return withHint(err, "'ccmapd top -n 0 FILE' lists all methods.")
}

// nearNames returns the names that contain text or whose last component is a
// few typing errors from it, the nearest first.
func nearNames(all []string, text string) []string {
	text = strings.ToLower(plainName(text))
	last := lastComponent(text)
	type near struct {
		name     string
		distance int
	}
	var found []near
	for _, name := range all {
		plain := strings.ToLower(plainName(name))
		distance := editDistance(lastComponent(plain), last)
		if strings.Contains(plain, text) || distance <= (len(last)+1)/3 {
			found = append(found, near{name, distance})
		}
	}
	slices.SortStableFunc(found, func(a, b near) int { return cmp.Compare(a.distance, b.distance) })
	sorted := make([]string, len(found))
	for i, n := range found {
		sorted[i] = n.name
	}
	return sorted
}

// editDistance counts the bytes to insert, delete or replace between a and b
// (Levenshtein). It looks no further than the first 64 bytes of each.
func editDistance(a, b string) int {
	const most = 64
	a, b = a[:min(len(a), most)], b[:min(len(b), most)]
	row := make([]int, len(b)+1) // row[j]: distance of a[:i] and b[:j]
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			replaced := diagonal
			if a[i] != b[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, diagonal+1)
		}
	}
	return row[len(b)]
}

// listNames joins the first few names.
func listNames(names []string) string {
	const most = 5
	list := printable(strings.Join(names[:min(len(names), most)], ", "))
	if len(names) <= most {
		return list
	}
	return fmt.Sprintf("%s and %d more", list, len(names)-most)
}
