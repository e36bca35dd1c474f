// Package guesttest lists all real guests, with those that only tests and benchmarks run, and reads
// them for tests.
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

// Real returns all real guests, for rounds rounds each: a round is some ten milliseconds
// of work.
func Real(rounds int) []guests.Guest {
	return []guests.Guest{
		guests.Queens(rounds), guests.Eval(rounds), guests.JSON(rounds), Words(rounds), Sorts(rounds),
		Shapes(rounds), Mandelbrot(rounds), guests.Parse(rounds),
		guests.SQLite(rounds), guests.QuickJS(rounds), guests.Esbuild(rounds),
	}
}

// Words is a Go program: counts 20,000 words of 121 kinds in a map.
func Words(rounds int) guests.Guest { return guests.GoProgram("words", rounds, "words 121 MUNA 206\n") }

// Sorts is a Go program: sorts 5,000 numbers twice.
func Sorts(rounds int) guests.Guest {
	return guests.GoProgram("sorts", rounds, "main.(*counted).Less %d\nmain.main.func1.1 %[1]d\n", 63029*rounds)
}

// Shapes is a C program: 70,000 calls through function pointers a round. Of every 7 calls
// 4 reach squares, 2 circles, 1 a triangle.
func Shapes(rounds int) guests.Guest {
	return guests.CProgram("shapes", rounds, "area %d\nsquare %d\ncircle %d\ntriangle %d\n",
		2120000*rounds, 40000*rounds, 20000*rounds, 10000*rounds)
}

// Mandelbrot is a C program: loops of floating point with hardly a call.
func Mandelbrot(rounds int) guests.Guest {
	return guests.CProgram("mandelbrot", rounds, "iterations %d\n", 4401710*rounds)
}
