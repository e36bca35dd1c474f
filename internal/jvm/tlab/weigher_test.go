package tlab

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"
)

// simulated is a thread that allocates as HotSpot does, by the rules of the package.
type simulated struct {
	id      int64
	random  *rand.Rand
	sizes   []int64
	limits  []float64    // of a random number, below which a size is chosen
	room    func() int64 // of the next buffer
	desired int64        // room that decides what may be wasted
	refills int          // between two pauses
	region  int64        // where G1 ends with its region's last buffer, as OpenJDK 17.0.21; 0: it does not

	free int64 // of the region

	left, wasted int64
	pauseAt      int64 // room that is left when the collector comes; −1: not in this buffer
	taken        int   // buffers since the last pause
	now          int64
	told         []Allocation
	pauses       []int64
	truth        []int64 // bytes of each size
}

// part is a size, and how many parts of all bytes objects of this size have.
type part struct {
	bytes float64
	size  int64
}

func newSimulated(id int64, desired int64, parts ...part) *simulated {
	s := &simulated{id: id, random: rand.New(rand.NewPCG(uint64(id), 7)), desired: desired, refills: 50, pauseAt: -1}
	s.room = func() int64 { return desired }
	all, sum := 0.0, 0.0
	for _, p := range parts {
		all += p.bytes / float64(p.size)
	}
	for _, p := range parts {
		sum += p.bytes / float64(p.size) / all
		s.sizes, s.limits = append(s.sizes, p.size), append(s.limits, sum)
	}
	s.truth = make([]int64, len(parts))
	return s
}

// run allocates until there were so many refills.
func (s *simulated) run(refills int) {
	for n := 0; n < refills; {
		at, x := 0, s.random.Float64()
		for at < len(s.limits)-1 && x >= s.limits[at] {
			at++
		}
		s.now += 20 + s.sizes[at]/10 // ns: 10 GB/s, as G1 with large pages at best
		s.truth[at] += s.sizes[at]
		if s.allocate(s.sizes[at]) {
			n++
		}
	}
}

// allocate reports whether the thread has taken a new buffer.
func (s *simulated) allocate(size int64) bool {
	if s.left <= s.pauseAt {
		s.pauses = append(s.pauses, s.now)
		s.left, s.wasted, s.pauseAt, s.taken = 0, 0, -1, 0
	}
	switch {
	case size <= s.left:
		s.left -= size
		return false
	case s.left > s.wasted:
		s.told = append(s.told, Allocation{Thread: s.id, Time: s.now, Size: size})
		s.wasted += wasteMore
		return false
	}
	if room := s.room(); s.region > 0 && s.free < room {
		s.free = s.region - size
		s.told = append(s.told, Allocation{Thread: s.id, Time: s.now, Size: size})
		s.left, s.wasted = 0, 0
		return false
	}
	s.left, s.wasted = s.room(), s.desired/wastePart
	s.free -= s.left + size
	s.told = append(s.told, Allocation{Thread: s.id, Time: s.now, Size: size, Buffer: s.left + size})
	if s.taken++; s.taken == s.refills {
		s.pauseAt = s.random.Int64N(s.left)
	}
	return true
}

// sums returns the sums of weights by size.
func (s *simulated) sums(weights []int64) []int64 {
	sums := make([]int64, len(s.sizes))
	for i, a := range s.told {
		for k, size := range s.sizes {
			if a.Size == size {
				sums[k] += weights[i]
			}
		}
	}
	return sums
}

// mixtures are programs whose sizes differ in each way that matters: within and beyond what a buffer may
// waste, and beyond its size.
var mixtures = map[string][]part{
	"large arrays and small objects":  {{79, 65536}, {21, 64}},
	"arrays within the waste":         {{79, 4096}, {21, 40}},
	"small objects":                   {{50, 24}, {50, 200}},
	"arrays just beyond the waste":    {{85, 12000}, {15, 32}},
	"arrays beyond a buffer":          {{40, 1000000}, {30, 20000}, {30, 48}},
	"a little of small objects":       {{30, 3000000}, {70, 100}},
	"a twentieth of a buffer, in row": {{90, 24000}, {10, 32}},
}

// The sums of weights are the bytes that were allocated, for each size within 3 points.
func TestWeigh(t *testing.T) {
	t.Parallel()
	for name, parts := range mixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(1, 500_000, parts...)
			s.run(4000)
			checkShares(t, s, new(Weigher).Weigh(s.told, s.pauses))
		})
	}
}

// G1 of OpenJDK 17.0.21 puts the object outside that ends a region's last buffer.
func TestWeighWhereRegionsEnd(t *testing.T) {
	t.Parallel()
	for name, parts := range mixtures {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSimulated(1, 500_000, parts...)
			s.region = 4_000_000
			s.run(4000)
			checkShares(t, s, new(Weigher).Weigh(s.told, s.pauses))
		})
	}
}

func checkShares(t *testing.T, s *simulated, weights []int64) {
	t.Helper()
	sums := s.sums(weights)
	for k, size := range s.sizes {
		got, want := 100*float64(sums[k])/float64(total(sums)), 100*float64(s.truth[k])/float64(total(s.truth))
		if math.Abs(got-want) > 3 {
			t.Errorf("objects of %d bytes have %.1f %% of the bytes, want %.1f", size, got, want)
		}
	}
	if all := float64(total(sums)) / float64(total(s.truth)); all < 0.97 || all > 1.03 {
		t.Errorf("%.3f of all bytes", all)
	}
}

func total(numbers []int64) (sum int64) {
	for _, n := range numbers {
		sum += n
	}
	return sum
}

// G1 ends a buffer with the region that it lies in, so rooms differ, and what may be wasted goes by the largest.
func TestWeighUnequalBuffers(t *testing.T) {
	t.Parallel()
	s := newSimulated(1, 500_000, part{79, 65536}, part{21, 64})
	s.room = func() int64 { return 500_000 - 65536*s.random.Int64N(7) }
	s.run(4000)
	checkShares(t, s, new(Weigher).Weigh(s.told, s.pauses))
}

// A recording comes in pieces, and a buffer may begin in one and end in a later one. Threads with few buffers
// share a model.
func TestWeighInPieces(t *testing.T) {
	t.Parallel()
	var w Weigher
	one := newSimulated(1, 500_000, part{79, 65536}, part{21, 64})
	var weights []int64
	for range 200 {
		from, pauses := len(one.told), len(one.pauses)
		one.run(20)
		weights = append(weights, w.Weigh(one.told[from:], one.pauses[pauses:])...)
	}
	checkShares(t, one, weights)

	var sums, truth []int64
	for id := range int64(200) {
		few := newSimulated(2+id, 500_000, part{79, 65536}, part{21, 64})
		few.run(25)
		got := few.sums(w.Weigh(few.told, nil))
		if sums == nil {
			sums, truth = make([]int64, len(got)), make([]int64, len(got))
		}
		for k := range got {
			sums[k], truth[k] = sums[k]+got[k], truth[k]+few.truth[k]
		}
	}
	got, want := float64(sums[0])/float64(total(sums)), float64(truth[0])/float64(total(truth))
	if math.Abs(got-want) > 0.03 {
		t.Errorf("threads with few buffers: %.3f of the bytes are arrays, want %.3f", got, want)
	}
}

// What was allocated before a pause says nothing of the size of the first object after it.
func TestWeighAfterPause(t *testing.T) {
	t.Parallel()
	got := new(Weigher).Weigh([]Allocation{{1, 10, 100, 1100}, {1, 20, 200, 1200}, {1, 40, 16, 1016}, {1, 50, 8000, 0}}, []int64{30})
	want := []int64{100, 200 + 1000*1000/(1000+0), 16, 8000}
	want[1] = 200 + 1000 + 500 // all that the first buffer had, and half of the second, which the collector took
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("weights %v, want %v", got, want)
			break
		}
	}
}

// No event has a weight below its size, and no thread more than its buffers had room for.
func FuzzWeigh(f *testing.F) {
	s := newSimulated(1, 5000, part{70, 3000}, part{30, 24})
	s.run(60)
	var seed []byte
	for _, a := range s.told {
		for _, v := range []int64{a.Thread, a.Time, a.Size, a.Buffer} {
			seed = binary.LittleEndian.AppendUint64(seed, uint64(v))
		}
	}
	f.Add(seed, int64(500))
	f.Add([]byte{}, int64(0))
	f.Fuzz(func(t *testing.T, data []byte, pause int64) {
		var all []Allocation
		for ; len(data) >= 32 && len(all) < 1000; data = data[32:] {
			n := func(i int) int64 { return int64(binary.LittleEndian.Uint64(data[8*i:])) }
			all = append(all, Allocation{n(0), n(1), n(2), n(3)})
		}
		var w Weigher
		for range 2 {
			most, sum := 0.0, 0.0
			for i, weight := range w.Weigh(all, []int64{pause}) {
				if weight < sized(all[i].Size) {
					t.Fatalf("%+v weighs %d", all[i], weight)
				}
				sum += float64(weight)
				most += float64(sized(all[i].Size)) + float64(sized(all[i].Buffer))
			}
			if sum > 2.01*most+1 { // buffers of the first round may end in the second
				t.Fatalf("%d allocations weigh %g, more than %g", len(all), sum, most)
			}
		}
	})
}
