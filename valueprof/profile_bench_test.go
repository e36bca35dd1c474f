package valueprof

import (
	"fmt"
	"runtime"
	"testing"
)

// siteMap is the peer of the index: a Go map.
type siteMap map[Site]*point

func (m siteMap) find(s Site) *point { return m[s] }

func benchSites(n int) []Site {
	sites := make([]Site, n)
	for i := range sites {
		sites[i] = Site{Method: uint32(i / 10), Offset: uint32(i%10) * 16, Context: uint32(i % 3)}
	}
	return sites
}

// BenchmarkIndex compares ways to find a point.
func BenchmarkIndex(b *testing.B) {
	for _, n := range []int{16, 1024, 65536} {
		keys := benchSites(n)
		x := newSiteIndex()
		m := siteMap{}
		for _, k := range keys {
			pt := &point{Site: k}
			x.insert(pt)
			m[k] = pt
		}
		for _, peer := range []struct {
			name string
			find func(Site) *point
		}{{"open", x.find}, {"map", m.find}} {
			b.Run(fmt.Sprintf("index=%s/sites=%d", peer.name, n), func(b *testing.B) {
				i, mask := 0, n-1
				for b.Loop() {
					peer.find(keys[i*31&mask]).inline[0].Count++
					i++
				}
			})
		}
	}
}

// mapProfile is the peer of a Profile: a map of maps and nothing else.
type mapProfile map[Site]map[uint64]uint64

func (m mapProfile) Call(s Site, v uint64) {
	values := m[s]
	if values == nil {
		values = map[uint64]uint64{}
		m[s] = values
	}
	values[v]++
}

// BenchmarkCall counts known values at known sites: 1 or 2 inline values, and a full
// table.
func BenchmarkCall(b *testing.B) {
	for _, sites := range []int{1, 1024} {
		keys := benchSites(sites)
		for _, values := range []int{1, 2, 7} {
			for _, peer := range []struct {
				name string
				call func(Site, uint64)
			}{
				{"profile", NewProfile(Options{}).Call},
				{"map", mapProfile{}.Call},
			} {
				b.Run(fmt.Sprintf("peer=%s/sites=%d/values=%d", peer.name, sites, values), func(b *testing.B) {
					i := 0
					for b.Loop() {
						peer.call(keys[i*31&(sites-1)], 0xc000010000+uint64(i%values)*64)
						i++
					}
				})
			}
		}
	}
}

// BenchmarkMiss counts values that the full tables do not hold, with the janitor's
// work.
func BenchmarkMiss(b *testing.B) {
	for _, sites := range []int{1, 1024} {
		b.Run(fmt.Sprintf("sites=%d", sites), func(b *testing.B) {
			p := NewProfile(Options{})
			keys := benchSites(sites)
			i := 0
			for b.Loop() {
				p.Call(keys[i&(sites-1)], uint64(i/sites))
				i++
			}
		})
	}
}

// typicalCalls returns the calls of a typical program. It has 1,000 methods with 6
// call sites each: four see one receiver, one sees two and one sees ten.
func typicalCalls(yield func(Site, uint64) bool) {
	for id := range uint32(1000) {
		for offset, receivers := range []uint64{1, 1, 1, 1, 2, 10} {
			for n := range uint64(60) {
				if !yield(Site{Method: id, Offset: uint32(offset)}, 0xc000010000+n%receivers*64) {
					return
				}
			}
		}
	}
}

func typicalProfile() *Profile {
	p := NewProfile(Options{})
	for s, v := range typicalCalls {
		p.Call(s, v)
	}
	return p
}

// heapOf returns the growth of the heap by the result of build.
func heapOf(build func() any) uint64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // frees memory that cleanups released after the first one
	runtime.ReadMemStats(&before)
	built := build()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(built)
	return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
}

// TestBytes: a profile states the memory that it takes from the heap. The test runs
// alone because all tests share the heap.
func TestBytes(t *testing.T) {
	var stated int
	heap := heapOf(func() any {
		p := typicalProfile()
		stated = p.Stats().Bytes
		return p
	})
	if ratio := float64(stated) / float64(heap); ratio < 0.9 || ratio > 1.1 {
		t.Errorf("states %d bytes, has %d", stated, heap)
	}
}

// BenchmarkMemory states the memory of a typical profile, and of its peer.
func BenchmarkMemory(b *testing.B) {
	b.Run("peer=profile", func(b *testing.B) {
		var s Stats
		for b.Loop() {
			s = typicalProfile().Stats()
		}
		b.ReportMetric(float64(s.Bytes)/1000, "B/method")
		b.ReportMetric(float64(s.Bytes)/float64(s.Points), "B/point")
	})
	b.Run("peer=map", func(b *testing.B) {
		var bytes uint64
		for b.Loop() {
			bytes = heapOf(func() any {
				m := mapProfile{}
				for s, v := range typicalCalls {
					m.Call(s, v)
				}
				return m
			})
		}
		b.ReportMetric(float64(bytes)/1000, "B/method")
		b.ReportMetric(float64(bytes)/6000, "B/point")
	})
}

func TestCallAllocatesNothing(t *testing.T) {
	p := NewProfile(Options{})
	i := 0
	call := func() {
		p.Call(Site{1, uint32(i % 3), 0}, uint64(i%(1+i%3*2)))
		p.Call(Site{1, 9, 0}, uint64(i%40)) // misses mostly
		i++
	}
	for range 100 {
		call()
	}
	if n := testing.AllocsPerRun(10_000, call); n != 0 {
		t.Errorf("%v allocations a call", n)
	}
}
