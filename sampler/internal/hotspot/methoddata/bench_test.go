package methoddata

import (
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// BenchmarkSnapshot reads the profiles of a compiler that has run for some seconds, and then
// stands still: all of them for the first time, all of them again, and those of 500 methods,
// all of which have grown. The time on a CPU says more than the other on a busy machine. With -short
// the compiler of one JDK runs for a moment.
func BenchmarkSnapshot(b *testing.B) {
	jdks, enough := jvmtest.JDKs(b), 4500
	if testing.Short() {
		jdks, enough = jdks[:1], 600
	}
	for _, jdk := range jdks {
		j := jdk.Start(b, nil, "Javac")
		warm := open(b, j)
		for deadline := time.Now().Add(time.Minute); warm.stats.Warm < enough && time.Now().Before(deadline); {
			if err := warm.Snapshot(); err != nil {
				b.Log(err)
			}
		}
		if err := syscall.Kill(j.PID, syscall.SIGSTOP); err != nil {
			b.Fatal(err)
		}
		b.Run("jdk="+jdk.Name+"/first", func(b *testing.B) {
			defer onCPU(b)()
			for b.Loop() {
				r := open(b, j)
				if err := r.Snapshot(); err != nil {
					b.Fatal(err)
				}
				r.Points(ccmap.NewNames())
				b.ReportMetric(float64(r.stats.Warm), "methods")
				b.ReportMetric(float64(r.stats.Records), "records")
			}
		})
		names := ccmap.NewNames()
		warm.Points(names)
		b.Run("jdk="+jdk.Name+"/again", func(b *testing.B) {
			defer onCPU(b)()
			for b.Loop() {
				if err := warm.Snapshot(); err != nil {
					b.Fatal(err)
				}
				warm.Points(names)
			}
		})
		var hot []uint64
		for method := range warm.profiles {
			if hot = append(hot, method); len(hot) == 500 {
				break
			}
		}
		b.Run("jdk="+jdk.Name+"/hot=500", func(b *testing.B) {
			defer onCPU(b)()
			for b.Loop() {
				for _, method := range hot {
					warm.profiles[method].invocations--
				}
				warm.Update(hot)
				warm.Points(names)
			}
		})
	}
}

// onCPU returns a function that reports the time on a CPU for each iteration of b, since.
func onCPU(b *testing.B) func() {
	before := cpuTime(b)
	return func() {
		b.ReportMetric(float64((cpuTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
	}
}

func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
