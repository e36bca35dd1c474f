package perfevent

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkSample takes the CPU time that a sample in the kernel costs the thread, with the kernel's part of the call
// chain and without. Each sample wakes a reader.
func BenchmarkSample(b *testing.B) {
	zero, err := os.Open("/dev/zero")
	if err != nil {
		b.Fatal(err)
	}
	defer zero.Close()
	for _, kernel := range []bool{false, true} {
		b.Run(fmt.Sprintf("kernel=%t", kernel), func(b *testing.B) {
			p, err := newPair()
			if err != nil {
				b.Fatal(err)
			}
			defer p.close()
			ring, err := OpenRing(p.cpu, minRingBytes, 1)
			if err != nil {
				b.Fatal(err)
			}
			defer ring.Close()
			stop, err := empty(ring)
			if err != nil {
				b.Fatal(err)
			}
			defer stop()
			buffer := make([]byte, 1<<16)
			work := func() (spent time.Duration) {
				p.do(func() {
					began := ThreadTime()
					for range 200 {
						zero.Read(buffer)
					}
					spent = ThreadTime() - began
				})
				return spent
			}
			timer := func() (func(), error) {
				t, err := OpenTimer(Form{Dump: FirstDump, Kernel: kernel}, costInterval, p.threads[0].tid, p.cpu)
				if err != nil {
					return nil, err
				}
				return func() { t.Close() }, errors.Join(t.setPeriod(costInterval), t.SendTo(ring))
			}
			var cost []time.Duration
			for range b.N {
				without, with, err := compare(time.Now().Add(costTime), work, timer)
				if err != nil {
					b.Fatal(err)
				}
				cost = append(cost, time.Duration(float64(with-without)/float64(with)*float64(costInterval)))
			}
			b.ReportMetric(float64(median(cost)), "ns/sample")
			b.ReportMetric(0, "ns/op")
		})
	}
}
