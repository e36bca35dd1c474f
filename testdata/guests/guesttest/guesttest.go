// Package guesttest reads guests for tests.
package guesttest

import (
	"errors"
	"os"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// reasons are why a newcomer's run leaves tests of guests out.
var reasons = map[guests.Origin]testrun.Reason{
	guests.FromClang: testrun.Clang, guests.FromNPM: testrun.NPM, guests.FromProxy: testrun.Package,
}

// Module builds or fetches a guest, and returns its module. It skips the test where that takes more
// than Go, unless the run is a full one.
func Module(t testing.TB, g guests.Guest) []byte {
	t.Helper()
	if why, more := reasons[g.From]; more {
		testrun.Full(t, why)
	}
	path, err := g.Path(t.Context())
	if errors.Is(err, guests.ErrUnavailable) {
		testrun.Lacks(t, "%v", err)
	}
	binary, failed := os.ReadFile(path)
	if err := errors.Join(err, failed); err != nil {
		t.Fatal(err)
	}
	return binary
}
