package manager

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/tuning"
)

// busyManager returns a manager whose map knows the stacks that push then
// publishes, n samples of the given depth. It has the options of a session.
func busyManager(tb testing.TB, n, depth int) (m *Manager, push func()) {
	s := newSessionOf(ccmap.Options{Seed: 1, MaxBytes: 64 << 20, Window: 15 * time.Minute}, nil)
	tuner, err := tuning.New(tuning.Config{})
	if err != nil {
		tb.Fatal(err)
	}
	s.config.Tuner = tuner
	if m, err = New(s.config); err != nil {
		tb.Fatal(err)
	}
	m.begin()
	ring := s.config.Queue.Ring()
	samples := []*ccmap.Sample{pyramid(s.config.Map.Names(), depth, "a"), pyramid(s.config.Map.Names(), depth, "b")}
	push = func() {
		for i := range n {
			ring.Push(samples[i%2])
		}
		ring.Publish()
	}
	push()
	m.takeTurn()
	return m, push
}

// pyramid returns a sample of a stack of the given depth, with its own leaf.
func pyramid(names *ccmap.Names, depth int, leaf string) *ccmap.Sample {
	methods := []string{leaf}
	for i := 1; i < depth; i++ {
		methods = append(methods, fmt.Sprint("f", i))
	}
	return stack(names, methods...)
}

func TestTurnDoesNotAllocate(t *testing.T) {
	m, push := busyManager(t, 10, 40)
	m.settling.earliest = time.Now().Add(time.Hour) // a question takes a snapshot
	if n := testing.AllocsPerRun(100, func() { push(); m.takeTurn() }); n > 0 {
		t.Errorf("a turn allocates %v times", n)
	}
}

// BenchmarkTurn measures a whole turn of a small batch: draining, folding, and
// what is done once a turn.
func BenchmarkTurn(b *testing.B) {
	for _, samples := range []int{1, 10, 100} {
		for _, depth := range []int{10, 40} {
			b.Run(fmt.Sprintf("samples=%d/depth=%d", samples, depth), func(b *testing.B) {
				m, push := busyManager(b, samples, depth)
				for b.Loop() {
					push()
					m.takeTurn()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*samples), "ns/sample")
			})
		}
	}
}
