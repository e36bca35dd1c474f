package main

import (
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestFormatTime(t *testing.T) {
	t.Parallel()
	for ns, want := range map[int64]string{
		0:                   "0",
		12:                  "12ns",
		999:                 "999ns",
		1000:                "1µs",
		1234:                "1.23µs",
		45_600_000:          "45.6ms",
		999_499_999:         "999ms",
		999_500_000:         "1s",
		1_234_567_890:       "1.23s",
		599_400_000_000:     "599s",
		600_000_000_000:     "10m00s",
		4_511_700_000_000:   "75m12s",
		9223372036854775807: "153722867m17s",
	} {
		if got := formatTime(ns); got != want {
			t.Errorf("formatTime(%d) = %q, want %q", ns, got, want)
		}
	}
}

func TestFormatTimeInColumn(t *testing.T) {
	t.Parallel()
	for ns, want := range map[int64]string{
		0:               "0",
		50:              "50ns",
		1000:            "1.00µs",
		92_000_000:      "92.0ms",
		346_400_000:     "346ms",
		999_499_999:     "999ms",
		999_500_000:     "1.00s",
		3_900_000_000:   "3.90s",
		599_400_000_000: "599s",
		600_000_000_000: "10m00s",
	} {
		if got := formatTimeInColumn(ns); got != want {
			t.Errorf("formatTimeInColumn(%d) = %q, want %q", ns, got, want)
		}
	}
}

func TestFormatCount(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1234: "-1,234", -123: "-123",
	} {
		if got := formatCount(n); got != want {
			t.Errorf("formatCount(%d) = %q, want %q", n, got, want)
		}
	}
}

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
		if got := shortenMethod(test.name, test.width); got != test.want {
			t.Errorf("shortenMethod(%q, %d) = %q, want %q", test.name, test.width, got, test.want)
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
		if got := shortenLocation("/usr/local/go/src/net/http/server.go:2220", width); got != want {
			t.Errorf("shortenLocation(…, %d) = %q, want %q", width, got, want)
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
			"method": shortenMethod, "location": shortenLocation, "middle": shortenMiddle,
		} {
			if got := shorten(s, width); utf8.RuneCountInString(got) > width {
				t.Errorf("%s: %q cut to %d is %q", name, s, width, got)
			}
		}
	})
}
