package advice

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// naive counts typing errors by their definition: every way to align two words.
func naive(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	i, j := len(a)-1, len(b)-1
	least := min(naive(a[:i], b)+1, naive(a, b[:j])+1, naive(a[:i], b[:j])+differ(a[i], b[j]))
	if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
		least = min(least, naive(a[:i-1], b[:j-1])+1)
	}
	return least
}

// TestTypos: the fewest edits of all ways to make one word of the other, from 0 for equal ones on, in both directions.
func TestTypos(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[abc]{0,6}`)
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		switch n := Typos(a, b); {
		case n != naive(a, b), n != Typos(b, a):
			t.Errorf("%d typos between %q and %q, and %d back: want %d", n, a, b, Typos(b, a), naive(a, b))
		case (n == 0) != (a == b):
			t.Errorf("%d typos between %q and %q", n, a, b)
		}
	})
	if n := Typos(strings.Repeat("x", 1000), strings.Repeat("y", 1000)); n != 64 {
		t.Errorf("%d typos in long words: only their first 64 bytes count", n)
	}
}

// TestNearText: a slip of the fingers is near, and a part of the name; what only looks like a name is not.
func TestNearText(t *testing.T) {
	t.Parallel()
	names := []string{"web", "db", "storefront", "storefront-2", "Billing", "fortio-16023"}
	for text, want := range map[string][]string{
		"wbe": {"web"}, "webb": {"web"}, "storefornt": {"storefront", "storefront-2"}, "store": {"storefront", "storefront-2"},
		"STOREFRONT-2": {"storefront-2", "storefront"}, "biling": {"Billing"}, "fortoi": {"fortio-16023"}, "nginx": {}, "x": {}, "": names,
	} {
		got := NearText(names, text)
		if text == "" { // it is part of all, and the shortest are the nearest
			slices.Sort(got)
			want = slices.Sorted(slices.Values(names))
		}
		if !slices.Equal(got, want) {
			t.Errorf("near to %q: %q, want %q", text, got, want)
		}
	}
}
