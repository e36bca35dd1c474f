package terminal

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestShortenMethod(t *testing.T) {
	t.Parallel()
	const serve = "net/http.(*conn).serve"
	for _, test := range []struct {
		name  string
		width int
		want  string
	}{
		{serve, 21, "http.(*conn).serve"},
		{serve, 18, "http.(*conn).serve"},
		{serve, 14, "http.…n).serve"},
		{"github.com/a/b.F[github.com/c/d.T]", 30, "b.F[github.com/c/d.T]"},
		{"  ← github.com/a/b.F", 12, "  ← b.F"},
		{"main.f", 1, "…"},
		{"main.f", 0, ""},
	} {
		if got := ShortenMethod(test.name, test.width); got != test.want {
			t.Errorf("ShortenMethod(%q, %d) = %q, want %q", test.name, test.width, got, test.want)
		}
	}
}

func TestShortenLocation(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		40: "usr/local/go/src/net/http/server.go:2220",
		25: "net/http/server.go:2220",
		16: "server.go:2220",
		10: "ser…o:2220",
	} {
		if got := ShortenLocation("/usr/local/go/src/net/http/server.go:2220", width); got != want {
			t.Errorf("ShortenLocation(…, %d) = %q, want %q", width, got, want)
		}
	}
}

// TestShortenFits: whatever is cut has the width it was cut to, at most.
func TestShortenFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "s")
		width := rapid.IntRange(0, 40).Draw(t, "width")
		for name, shorten := range map[string]func(string, int) string{
			"method": ShortenMethod, "location": ShortenLocation, "middle": ShortenMiddle,
		} {
			if got := shorten(s, width); utf8.RuneCountInString(got) > width {
				t.Errorf("%s: %q cut to %d is %q", name, s, width, got)
			}
		}
	})
}
