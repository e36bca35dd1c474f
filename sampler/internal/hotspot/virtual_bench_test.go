package hotspot

import (
	"fmt"
	"testing"
)

// BenchmarkVirtualCensus takes censuses of parked virtual threads of one JVM, without collections between.
func BenchmarkVirtualCensus(b *testing.B) {
	jdk := with25(b)
	for _, n := range []int{10_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprintf("threads=%d", n), func(b *testing.B) {
			jvm := jdk.Start(b, []string{"-Xms3g", "-Xmx3g"}, "Rests", itoa(n), "parked")
			ts, err := openJVM(b, jvm.PID).JavaThreads()
			if err != nil {
				b.Fatal(err)
			}
			ts.Refresh() // the first one meets all of them
			begin := cpuTime()
			for b.Loop() {
				ts.Refresh()
			}
			if _, all := ts.Len(); ts.VirtualUnknown() != nil || all < uint64(n) {
				b.Logf("%d threads: %v", all, ts.VirtualUnknown())
			}
			b.ReportMetric(float64(cpuTime()-begin)/float64(b.N)/float64(n), "ns-CPU/thread")
		})
	}
}
