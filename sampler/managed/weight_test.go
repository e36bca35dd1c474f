package managed

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// run lets threads claim at some of the marks.
func run(t *rapid.T, processors, threads, marks int) (weight, elapsed int64) {
	k := timekeeper{bounded: true}
	k.setWorth(1)
	accounted := make([]int64, threads)
	for range marks {
		d := time.Duration(rapid.Int64Range(1, 1e7).Draw(t, "ns"))
		k.run(d, time.Duration(processors)*d, processors)
		for i := range accounted {
			if rapid.IntRange(0, 3).Draw(t, "claim") > 0 {
				w, now := k.claim(accounted[i])
				weight += w
				accounted[i] = now
			}
		}
	}
	for i := range accounted { // all claim at the end, so that no time is missing
		w, _ := k.claim(accounted[i])
		weight += w
	}
	return weight, k.elapsed.Load()
}

// Threads that are no more than the processors get all their time, whenever they claim
// it.
func TestNoTimeIsLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		processors := rapid.IntRange(1, 4).Draw(t, "processors")
		threads := rapid.IntRange(1, processors).Draw(t, "threads")
		weight, elapsed := run(t, processors, threads, rapid.IntRange(1, 60).Draw(t, "marks"))
		if weight != elapsed*int64(threads) {
			t.Fatalf("%d threads have %d ns of %d", threads, weight, elapsed)
		}
	})
}

// More threads than processors share the processors' time, and get no more: whether all
// claim at each mark, or only those that run for some marks while the others wait.
func TestTimeIsShared(t *testing.T) {
	t.Parallel()
	for _, threads := range []int{3, 100} {
		for _, slice := range []int{0, 1, 2, 3, 10} { // marks for which a thread runs; 0: all run
			parts := shared(threads, slice)
			all := 0.0
			for _, part := range parts {
				all += part / float64(threads)
			}
			if all < 0.98 || all > 1 || slices.Min(parts) < 0.9 || slices.Max(parts) > 1.1 {
				t.Errorf("%d threads in slices of %d marks have %.3f of the time, each %.3f to %.3f of its share",
					threads, slice, all, slices.Min(parts), slices.Max(parts))
			}
		}
	}
}

// shared returns the threads' parts of their equal shares in the time of two processors.
func shared(threads, slice int) []float64 {
	const processors, marks = 2, 20_000
	k := timekeeper{bounded: true}
	k.setWorth(1)
	accounted, weights := make([]int64, threads), make([]float64, threads)
	claim := func(thread int) {
		w, now := k.claim(accounted[thread])
		weights[thread] += float64(w)
		accounted[thread] = now
	}
	for mark := range marks {
		k.run(10*time.Millisecond, processors*10*time.Millisecond, processors)
		if slice == 0 {
			for i := range threads {
				claim(i)
			}
			continue
		}
		for i := range processors {
			claim((mark/slice*processors + i) % threads)
		}
	}
	for i := range weights {
		weights[i] *= float64(threads) / float64(processors*k.elapsed.Load())
	}
	return weights
}

// A process that waits, for anything or for a processor, has not run.
func TestTimeIsThatOfTheProcess(t *testing.T) {
	t.Parallel()
	k := timekeeper{bounded: true}
	k.setWorth(1)
	k.run(10*time.Millisecond, 3*time.Millisecond, 2)
	if w, _ := k.claim(0); w != int64(3*time.Millisecond) {
		t.Errorf("a sample of a process that ran 3 ms of 10 stands for %v", time.Duration(w))
	}
}
