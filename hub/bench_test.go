package hub

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
)

// smallBuild are the contributions of ten instances of three behaviours, several of each.
func smallBuild(b *testing.B, contexts, each int) (all []sent) {
	r := rand.New(rand.NewPCG(1, 30))
	for seq := range each {
		for i := range 10 {
			all = append(all, newSent(b, testKey("web", i, uint64(seq+1)), behaving(r, []int{0, 0, 1, 0, 2, 0}[i%6], contexts)))
		}
	}
	return all
}

// behaving is a profile of up to so many contexts of one program. Each of three behaviours has another third of them hot.
func behaving(r *rand.Rand, behaviour, contexts int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	for range 4 * contexts {
		at := int(r.ExpFloat64()*float64(contexts)/6) % contexts
		at = (at + behaviour*contexts/3) % contexts
		frames := make([]ccmap.Frame, 10)
		for depth := range frames {
			n := at >> depth // callers are shared
			name := fmt.Sprintf("example.com/service/internal/package%02d.(*Type%d).Method%d", depth, n%7, n)
			file := fmt.Sprintf("/src/package%02d/type%d.go", depth, n%7)
			frames[depth] = ccmap.Frame{Method: m.Names().Intern(ccmap.Method{Name: name, File: file, StartLine: 10})}
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: 1})
	}
	return m.Snapshot()
}

// BenchmarkCommit has one core merge what ten instances of a build send in two hours, four contributions a commit.
func BenchmarkCommit(b *testing.B) {
	for _, contexts := range []int{300, 1000} {
		b.Run(fmt.Sprintf("contexts=%d", contexts), func(b *testing.B) {
			all := smallBuild(b, contexts, 12)
			b.ReportAllocs()
			var cpu time.Duration
			for b.Loop() {
				cpu += mergeByFours(b, all)
			}
			b.ReportMetric(float64(cpu.Microseconds())/1000/float64(b.N*len(all)), "cpu-ms/contribution")
		})
	}
}

// mergeByFours returns the CPU time of this process while it merged.
func mergeByFours(b *testing.B, all []sent) (cpu time.Duration) {
	bucket := newMemory()
	a, now := testAggregator(bucket), start
	a.now = func() time.Time { return now }
	for len(all) > 0 {
		now = now.Add(4 * time.Minute) // each sends every 10 minutes
		n := min(4, len(all))
		b.StopTimer()
		putSegment(b, bucket, all[:n]...)
		b.StartTimer()
		before := cpuTime(b)
		if err := a.round(b.Context()); err != nil {
			b.Fatal(err)
		}
		cpu += cpuTime(b) - before
		all = all[n:]
	}
	return cpu
}

func cpuTime(b *testing.B) time.Duration {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
