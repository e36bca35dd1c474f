package managed

import (
	"fmt"
	"testing"
	"time"
)

// Marks carry half an id, but are told apart for as long as there are ids.
func TestVisited(t *testing.T) {
	t.Parallel()
	const first, far = 10, 5 << 31
	for _, test := range []struct {
		own, of uint64 // attachments
		want    bool
	}{
		{own: 11, of: 11, want: true},
		{own: 11, of: 15, want: true},
		{own: 15, of: 11, want: true},
		{own: 11, of: 9, want: false}, // of an earlier profiler
		{own: far, of: far, want: true},
		{own: far, of: far - 5, want: true},
		{own: far - 5, of: far, want: true},
		{own: 1<<32 + 5, of: 1<<32 - 5, want: true},
		{own: first + 1<<31 + 1, of: first + 1<<31 + 1, want: true},
	} {
		s := stack{first: first, id: test.own, serial: uint32(test.own)}
		if got := s.visited(Mark{serial: uint32(test.of)}); got != test.want {
			t.Errorf("attachment %d takes a mark of %d for visited: %v", test.own, test.of, got)
		}
	}
	if s := (stack{first: first, id: 11, serial: 11}); s.visited(Mark{}) {
		t.Error("the zero mark is visited")
	}
}

// BenchmarkSweep times the marker's look at all threads, four times a second.
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
