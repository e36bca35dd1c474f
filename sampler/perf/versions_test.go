package perf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// goVersions returns the programs that all supported Go versions have built: the
// files that the pattern in CCMAPD_GO_VERSIONS matches. Those whose names end in -cgo
// are for TestCgo. To make one of each, in the folder testdata/versions:
//
//	GOTOOLCHAIN=go1.27.0 go build -o /tmp/versions/go1.27.0 main.go
//
// and, in a copy of testdata/cgoload that has a go.mod which says go 1.20:
//
//	GOTOOLCHAIN=go1.27.0 CGO_ENABLED=1 go build -o /tmp/versions/go1.27.0-cgo .
func goVersions(t *testing.T, cgo bool) []string {
	t.Helper()
	files, err := filepath.Glob(os.Getenv("CCMAPD_GO_VERSIONS"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, "-cgo") != cgo })
}

// TestGoVersions samples them. Last run with the last releases of Go 1.20 to 1.27, of
// 1.20 and 1.27 also with -buildmode=pie -ldflags="-s -w".
func TestGoVersions(t *testing.T) {
	files := goVersions(t, false)
	if len(files) == 0 {
		t.Skip("CCMAPD_GO_VERSIONS matches no file")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { sampleVersion(t, path) })
	}
}

// sampleVersion wants whole stacks of known functions, in known goroutines.
func sampleVersion(t *testing.T, path string) {
	samples, s := sampleWhole(t, Options{Interval: time.Millisecond}, path)
	var rounds, unknown, truncated, goroutines int
	for _, smp := range samples {
		if smp.has(ccmap.UnknownName) {
			unknown++
		}
		if smp.Truncated {
			truncated++
		}
		if smp.has("main.round") {
			rounds++
			if smp.Goroutine != 0 {
				goroutines++
			}
		}
	}
	all := len(samples)
	t.Logf("%s: %d samples, %d unknown, %d truncated, %d in rounds, %d of them of a known goroutine",
		s.Info().Target.Runtime, all, unknown, truncated, rounds, goroutines)
	if unknown > all/100 || truncated > all*2/100 {
		t.Errorf("%d unknown and %d truncated of %d samples, want 1 %% and 2 %% at most", unknown, truncated, all)
	}
	if rounds < all/2 || goroutines < rounds*95/100 {
		t.Errorf("%d of %d samples are in main.round, %d of a known goroutine", rounds, all, goroutines)
	}
}
