package managed

import (
	"fmt"
	"testing"
	"time"
)

// BenchmarkSweep is what the marker's look at all threads costs it, four times a
// second.
func BenchmarkSweep(b *testing.B) {
	for _, threads := range []int{1, 100, 10_000} {
		b.Run(fmt.Sprintf("threads=%d", threads), func(b *testing.B) {
			p := New(Options{Interval: -1})
			all := make([]*Thread, threads)
			for i := range all {
				all[i] = p.Attach(ThreadOptions{})
			}
			for b.Loop() {
				p.sweep(time.Now())
			}
			for _, t := range all {
				t.Detach()
			}
		})
	}
}
