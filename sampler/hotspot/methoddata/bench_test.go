package methoddata

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvmtest"
)

// BenchmarkSnapshot reads the profiles of a compiler that has run for some seconds: all of
// them for the first time, all of them again, and those of 500 methods.
func BenchmarkSnapshot(b *testing.B) {
	for _, jdk := range jvmtest.JDKs(b) {
		j := jdk.Start(b, nil, "Javac")
		warm := open(b, j)
		for deadline := time.Now().Add(time.Minute); warm.stats.Warm < 4000 && time.Now().Before(deadline); {
			if err := warm.Snapshot(); err != nil {
				b.Log(err)
			}
		}
		b.Run("jdk="+jdk.Name+"/first", func(b *testing.B) {
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
			for b.Loop() {
				warm.Update(hot)
				warm.Points(names)
			}
		})
	}
}
