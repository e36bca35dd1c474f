package wasm

import (
	"context"
	"fmt"
	"testing"

	"github.com/tetratelabs/wazero/api"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// mutual returns a sampled instance with a stack of any depth.
func (p *profile) mutual() (guest api.Module, even api.Function) {
	provide(p, context.Background(), p.runtime, reenter)
	guest = p.instantiate(p.compile(guests.Small("mutual")))
	return guest, guest.ExportedFunction("even")
}

// BenchmarkSample samples every safe point of a recursion. Only one frame is new, with
// the caller where the walk stops. wazero unwinds the whole stack each time.
func BenchmarkSample(b *testing.B) {
	for _, depth := range []int{10, 60, 1000} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			p := newProfile(b, everySafePoint(1), compiling())
			guest, even := p.mutual()
			stack := make([]uint64, 1)
			sampled := uint64(0)
			for b.Loop() {
				p.mark(guest)
				stack[0] = uint64(depth)
				if err := even.CallWithStack(context.Background(), stack); err != nil {
					b.Fatal(err)
				}
				p.profiler.Sink().Queue.Drain(func(*ccmap.Sample) { sampled++ })
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(sampled), "ns/sample")
		})
	}
}

// BenchmarkEntry times an entry from the host, with and without the listener.
func BenchmarkEntry(b *testing.B) {
	b.Run("profiled=false", func(b *testing.B) {
		_, plain := newPlain(b, guests.Small("mutual"))
		enter(b, plain.ExportedFunction("even"))
	})
	b.Run("profiled=true", func(b *testing.B) {
		_, even := newProfile(b, Options{}, compiling()).mutual()
		enter(b, even)
	})
}

func enter(b *testing.B, even api.Function) {
	stack := make([]uint64, 1)
	for b.Loop() {
		stack[0] = 0
		if err := even.CallWithStack(context.Background(), stack); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMark times the marker's work at a mark.
func BenchmarkMark(b *testing.B) {
	for _, instances := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("instances=%d", instances), func(b *testing.B) {
			p := newProfile(b, everySafePoint(1), compiling())
			c := p.compile(guests.Small("fib"))
			for range instances {
				if _, err := p.instantiate(c).ExportedFunction("fib").Call(context.Background(), 1); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				p.profiler.Mark(1)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*instances), "ns/instance")
		})
	}
}

// In the steady state no sample allocates: neither walks, nor entries, nor notes before
// calls of imports.
func TestSamplesAllocateNothing(t *testing.T) {
	o := everySafePoint(1)
	o.Sink = sampler.Sink{Queue: queue.New(queue.Options{RingWords: 1 << 16})}
	o.Burst = managed.Burst{Samples: 1 << 30, Stride: 1}
	p := newProfile(t, o, compiling())
	guest, even := p.mutual()
	stack := make([]uint64, 1)
	if n := testing.AllocsPerRun(20, func() {
		p.mark(guest)
		stack[0] = 100
		if err := even.CallWithStack(context.Background(), stack); err != nil {
			t.Fatal(err)
		}
		p.profiler.Sink().Queue.Drain(func(*ccmap.Sample) {})
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
