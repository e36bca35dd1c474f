package starlark_test

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"go.starlark.net/starlark"
	"go.starlark.net/syntax"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	profile "github.com/ccmapd/ccmapd/sampler/starlark"
)

const primes = `
def divides(d, n):
    return n % d == 0

def prime(n):
    return not any([divides(d, n) for d in range(2, n)])

def main():
    while not enough():
        [n for n in range(60) if prime(n)]

main()
`

// A host profiles its scripts from inside, and reads the map. A host that runs for long
// leaves the folding to manager.Start, which takes a profiler as its source and shows the
// map at any time.
func Example() {
	profiler := managed.New(managed.Options{Interval: managed.MinInterval})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = profiler.Run(ctx)
	}()

	thread := &starlark.Thread{Name: "primes"}
	profiled := profile.Attach(profiler, thread, profile.Options{})
	enough := func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		return starlark.Bool(profiler.Stats().Counts[sampler.Samples] > 100), nil
	}
	host := starlark.StringDict{"enough": starlark.NewBuiltin("enough", enough)}
	_, err := starlark.ExecFileOptions(&syntax.FileOptions{While: true}, thread, "primes.star", primes, host)
	profiled.Detach()
	stop()
	<-ended

	folded := ccmap.New(ccmap.Options{Names: profiler.Sink().Names})
	profiler.Sink().Queue.Drain(folded.Fold)
	fmt.Println(err, slices.Sorted(maps.Keys(hottest(folded.Snapshot(), 3))))
	// Output:
	// <nil> [primes.star:divides primes.star:main primes.star:prime]
}

// hottest returns the time of the n functions with most samples in themselves or in their
// callees, without the file itself.
func hottest(s *ccmap.Snapshot, n int) map[string]int64 {
	methods := slices.SortedFunc(s.Methods(), func(a, b ccmap.MethodProfile) int {
		return int(b.Cumulative().Samples - a.Cumulative().Samples)
	})
	times := make(map[string]int64)
	for _, m := range methods {
		if m.Method().Name != "primes.star:<toplevel>" && len(times) < n {
			times[m.Method().Name] = m.Cumulative().Time
		}
	}
	return times
}
