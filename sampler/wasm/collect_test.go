package wasm

import (
	"context"
	"math"
	"runtime"
	"runtime/debug"
	"sync"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// The profiler collects garbage itself while a guest computes, and then gives the runtime
// its own pace back.
func TestCollectAtSamples(t *testing.T) {
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	p := newProfile(t, Options{CollectAtSamples: true}, compiling())
	end := p.spin()
	p.awaitCollections()
	end()
	p.close()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("the percentage is %d after Close, was 100", got)
	}
}

// Profilers collect together: for the guests of each, and until the last one leaves. Two
// guests that compute have a processor each. Everything else needs another.
func TestCollectTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	percent := debug.SetGCPercent(100)
	defer debug.SetGCPercent(percent)
	first := newProfile(t, Options{CollectAtSamples: true}, compiling())
	second := newProfile(t, Options{CollectAtSamples: true, Exact: true}, compiling())
	endFirst, endSecond := first.spin(), second.spin()
	first.awaitCollections()
	endFirst()
	first.close()
	first.close()
	second.awaitCollections()
	endSecond()
	second.close()
	if got := debug.SetGCPercent(100); got != 100 {
		t.Errorf("the percentage is %d after Close, was 100", got)
	}
}

// Exactly recorded guests leave their loops, too, even after the recording. The test runs
// alone, as TestExit does.
func TestStoppingExact(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	runtime.GC() // ends one under way
	p := newProfile(t, Options{Exact: true}, compiling())
	end := p.spin()
	for range 10 {
		p.profiler.Stopping(runtime.GC)
	}
	p.profiler.Finish("over")
	if _, err := p.profiler.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		p.profiler.Stopping(runtime.GC)
	}
	end()
}

// spin runs a guest that loops for ever in native code, and returns a function that ends
// the guest.
func (p *profile) spin() (end func()) {
	return p.compute(exportCall{guest: "spin", function: "spin"})
}

// compute runs a guest for longer than any test waits, and returns a function that ends
// the guest.
func (p *profile) compute(c exportCall) (end func()) {
	p.Helper()
	guest := p.instantiate(p.compile(guests.Small(c.guest)))
	ended := make(chan ending)
	go func() {
		results, err := guest.ExportedFunction(c.function).Call(context.Background(), c.params...)
		ended <- endOf(guest, results, err)
	}()
	for !p.entered(guest) {
		runtime.Gosched()
	}
	return func() {
		p.Helper()
		p.profiler.Exit(3)
		if end := <-ended; end.Exit != 3 || !end.Closed {
			p.Errorf("%v ended with %+v", c, end)
		}
	}
}

// entered reports whether a guest has been entered.
func (p *profile) entered(guest api.Module) bool {
	if x := p.profiler.exact; x != nil {
		return x.thread(guest, nil) != nil
	}
	return p.profiler.instances.get(guest) != nil
}

// awaitUnasked returns when the guests no longer stay at their safe points.
func (p *profile) awaitUnasked() {
	unasked := func(mu *sync.Mutex, mark api.MutableGlobal) {
		for asked := true; asked; runtime.Gosched() {
			mu.Lock()
			asked = mark.Get() != 0
			mu.Unlock()
		}
	}
	p.profiler.instances.each(func(in *instance) { unasked(&in.mu, in.mark) })
	if x := p.profiler.exact; x != nil {
		for _, t := range x.all() {
			unasked(&t.mu, t.mark)
		}
	}
}

func (p *profile) close() {
	p.Helper()
	if err := p.profiler.Close(context.Background()); err != nil {
		p.Error(err)
	}
}

// awaitCollections returns after two collections.
func (p *profile) awaitCollections() {
	before := p.collections()
	for p.collections() < before+2 {
		sink = make([]byte, 1<<20)
	}
}

var sink []byte

// collections returns the number of collections so far.
func (p *profile) collections() (n int64) {
	p.profiler.Stopping(func() {
		var s debug.GCStats
		debug.ReadGCStats(&s)
		n = s.NumGC
	})
	return n
}

func TestHeapGoal(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		live    uint64
		percent int
		want    uint64
	}{{0, 100, smallestHeap}, {100 << 20, 100, 200 << 20}, {100 << 20, 50, 150 << 20}, {1 << 30, -1, math.MaxUint64}} {
		if got := heapGoal(c.live, c.percent); got != c.want {
			t.Errorf("live %d at %d %%: %d, want %d", c.live, c.percent, got, c.want)
		}
	}
}
