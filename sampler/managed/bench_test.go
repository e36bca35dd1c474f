package managed_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// BenchmarkSafepoint times a safe point of an unmarked thread, and a loop without one.
func BenchmarkSafepoint(b *testing.B) {
	g := attachDeep(newManual(0, managed.Burst{}), 1)
	b.Run("poll=none", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
		}
	})
	b.Run("poll=safepoint", func(b *testing.B) {
		n := 0
		for b.Loop() {
			n++
			g.Safepoint(g)
		}
	})
	b.Run("poll=calls", func(b *testing.B) {
		n := 0
		for b.Loop() {
			if g.CallsWanted() {
				n++
			}
		}
	})
}

// BenchmarkSample times a mark of a thread, for numbers of new activations on a stack of
// depth 100, and taking the sample off the queue.
func BenchmarkSample(b *testing.B) {
	for _, fresh := range []int{0, 1, 10, 100} {
		b.Run(fmt.Sprintf("fresh=%d", fresh), func(b *testing.B) {
			p := newManual(0, managed.Burst{})
			g := attachDeep(p, 100)
			fold := func(*ccmap.Sample) {}
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				for _, a := range g.calls[100-fresh:] {
					a.mark.Clear()
				}
				p.Mark(time.Millisecond)
				g.Safepoint(g)
				if n++; n%10 == 0 {
					p.Sink().Queue.Drain(fold)
				}
			}
			if d := p.Sink().Queue.Stats().Dropped; d > 0 {
				b.Fatalf("%d samples dropped", d)
			}
		})
	}
}

// nothing is a hook that does nothing.
type nothing struct{}

func (nothing) Mark()      {}
func (nothing) WantCalls() {}

// BenchmarkMark times a tick of the marker.
func BenchmarkMark(b *testing.B) {
	for _, hooks := range []bool{false, true} {
		for _, threads := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("hooks=%v/threads=%d", hooks, threads), func(b *testing.B) {
				p := newManual(0, managed.Burst{})
				var o managed.ThreadOptions
				if hooks {
					o.Hook = nothing{}
				}
				all := make([]*managed.Thread, threads)
				for i := range all {
					all[i] = p.Attach(o)
				}
				b.ReportAllocs()
				for b.Loop() {
					p.Mark(time.Millisecond)
				}
				for _, t := range all {
					t.Detach()
				}
			})
		}
	}
}

// BenchmarkAttach times the life of a thread, for numbers of samples.
func BenchmarkAttach(b *testing.B) {
	for _, samples := range []int{0, 1} {
		b.Run(fmt.Sprintf("samples=%d", samples), func(b *testing.B) {
			p := newManual(0, managed.Burst{})
			g := attachDeep(p, 10)
			fold := func(*ccmap.Sample) {}
			b.ReportAllocs()
			for b.Loop() {
				g.Thread = p.Attach(managed.ThreadOptions{})
				for range samples {
					p.Mark(time.Millisecond)
					g.Safepoint(g)
				}
				g.Detach()
				p.Sink().Queue.Drain(fold)
			}
		})
	}
}

// BenchmarkPark times leaving the VM's code and coming back.
func BenchmarkPark(b *testing.B) {
	g := attachDeep(newManual(0, managed.Burst{}), 1)
	for b.Loop() {
		g.Park()
		g.Unpark()
	}
}

// BenchmarkPoint times a hit of a profile point, of one site and of a thousand in turn.
func BenchmarkPoint(b *testing.B) {
	p := newCounting(allPoints)
	sites := func(k ccmap.PointKind) (all [1024]managed.Site) {
		for i := range all {
			all[i] = p.Site(k, ccmap.Frame{Offset: uint32(i)})
		}
		return all
	}
	thread := p.Attach(managed.ThreadOptions{})
	defer thread.Detach()
	off := newCounting(0).Attach(managed.ThreadOptions{})
	defer off.Detach()
	branches, choices, types, numbers := sites(ccmap.PointBranch), sites(ccmap.PointSwitch), sites(ccmap.PointType), sites(ccmap.PointNumber)
	for _, c := range []struct {
		name string
		hit  func(i int)
	}{
		{"kind=none", func(int) {}},
		{"kind=off", func(i int) { off.Branch(0, i&3 == 0) }},
		{"kind=branch", func(i int) { thread.Branch(branches[0], i&3 == 0) }},
		{"kind=branch/sites=1024", func(i int) { thread.Branch(branches[i&1023], i&3 == 0) }},
		{"kind=switch/cases=8", func(i int) { thread.Switch(choices[0], uint32(i&7)) }},
		{"kind=type", func(i int) { thread.Type(types[0], ccmap.MethodID(i&1)) }},
		{"kind=value/values=8", func(i int) { thread.Value(numbers[0], int64(i&7)) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				c.hit(i)
				i++
			}
		})
	}
}
