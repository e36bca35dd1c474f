package queue

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
)

// numbered returns a sample with a number as its Time.
func numbered(number int64, frames int) *ccmap.Sample {
	s := &ccmap.Sample{Time: number, Frames: make([]ccmap.Frame, frames)}
	for i := range s.Frames {
		s.Frames[i] = ccmap.Frame{Method: ccmap.MethodID(number), Offset: uint32(i)}
	}
	return s
}

// drained returns the numbers of the samples that a drain delivers.
func drained(q *Queue) []int64 {
	var numbers []int64
	q.Drain(func(s *ccmap.Sample) { numbers = append(numbers, s.Time) })
	return numbers
}

// woken reports whether Ready has a token, and takes it.
func woken(q *Queue) bool {
	select {
	case <-q.Ready():
		return true
	default:
		return false
	}
}

func checkStats(t *testing.T, q *Queue, want Stats) {
	t.Helper()
	if diff := cmp.Diff(want, q.Stats()); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}

func TestPublishesBatches(t *testing.T) {
	t.Parallel()
	q := New(Options{})
	r := q.Ring()
	for i := range int64(9) {
		r.Push(numbered(i, 3))
	}
	if got := drained(q); got != nil || woken(q) {
		t.Fatalf("9 samples pushed: %v drained", got)
	}
	checkStats(t, q, Stats{Rings: 1})
	r.Push(numbered(9, 3))
	r.Push(numbered(10, 3))
	if !woken(q) {
		t.Error("10 samples pushed: not ready")
	}
	if got, want := drained(q), []int64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}; !slices.Equal(got, want) {
		t.Errorf("drained %v, want %v", got, want)
	}
	r.Publish()
	if got := drained(q); !slices.Equal(got, []int64{10}) {
		t.Errorf("after Publish: drained %v, want [10]", got)
	}
	r.Publish()
	woken(q)
	if r.Publish(); woken(q) {
		t.Error("nothing to publish, but ready")
	}
	checkStats(t, q, Stats{Pushed: 11, Delivered: 11, Rings: 1})
}

func TestFullRingDropsNewest(t *testing.T) {
	t.Parallel()
	q := New(Options{RingWords: 32, Batch: 100})
	r := q.Ring()
	for i := range int64(5) { // of 8 words each
		if got, want := r.Push(numbered(i, 1)), i < 4; got != want {
			t.Errorf("push %d: %v, want %v", i, got, want)
		}
	}
	checkStats(t, q, Stats{Pushed: 5, Dropped: 1, Rings: 1})
	if got, want := drained(q), []int64{0, 1, 2, 3}; !slices.Equal(got, want) {
		t.Errorf("drained %v, want %v: a full ring publishes what it has", got, want)
	}
	if !r.Push(numbered(5, 25)) {
		t.Error("a sample as large as the ring does not fit the empty ring")
	}
	r.Publish()
	if got := drained(q); !slices.Equal(got, []int64{5}) {
		t.Errorf("drained %v, want [5]", got)
	}
	checkStats(t, q, Stats{Pushed: 6, Delivered: 5, Dropped: 1, Rings: 1})
}

func TestOversizedIsLost(t *testing.T) {
	t.Parallel()
	q := New(Options{RingWords: 32})
	r := q.Ring()
	if r.Push(numbered(0, 26)) {
		t.Error("pushed 33 words into a ring of 32")
	}
	r.Push(numbered(1, 1))
	r.Close()
	if got := drained(q); !slices.Equal(got, []int64{1}) {
		t.Errorf("drained %v, want [1]", got)
	}
	checkStats(t, q, Stats{Pushed: 2, Delivered: 1, Dropped: 1, Oversized: 1, Rings: 1})
}

func TestClosedRingIsReused(t *testing.T) {
	t.Parallel()
	q := New(Options{})
	first := q.Ring()
	first.Push(numbered(0, 2))
	first.Close()
	first.Close()
	if first.Push(numbered(1, 2)) {
		t.Error("pushed into a closed ring")
	}
	second, third := q.Ring(), q.Ring()
	second.Push(numbered(2, 2))
	first.Publish()
	second.Close()
	third.Close()
	if got := drained(q); !slices.Equal(got, []int64{0, 2}) {
		t.Errorf("drained %v, want [0 2]", got)
	}
	checkStats(t, q, Stats{Pushed: 3, Delivered: 2, Dropped: 1, Rings: 2})
}

func TestManyRings(t *testing.T) {
	t.Parallel()
	q := New(Options{RingWords: 32})
	rings := make([]*Ring, 5000)
	for i := range rings {
		rings[i] = q.Ring()
	}
	for i, r := range rings {
		r.Push(numbered(int64(i), 2))
		r.Publish()
	}
	got := drained(q)
	for i, number := range got {
		if number != int64(i) {
			t.Fatalf("sample %d has number %d", i, number)
		}
	}
	if got := drained(q); len(got) != 0 {
		t.Errorf("drained again: %v", got)
	}
	checkStats(t, q, Stats{Pushed: 5000, Delivered: 5000, Rings: 5000})
}

func TestRingSize(t *testing.T) {
	t.Parallel()
	for words, want := range map[int]int{-1: 8192, 0: 8192, 1: 16, 16: 16, 17: 32, 100: 128, 1 << 24: 1 << 24, 1<<62 + 1: 1 << 24} {
		if got := ringSize(words); got != want {
			t.Errorf("%d words: ring of %d, want %d", words, got, want)
		}
	}
}

// model does what one ring must do. It holds a list of samples, the first of them
// published, in a limited number of words.
type model struct {
	size      int
	held      []ccmap.Sample
	published int
	pending   int
	stats     Stats
}

func (m *model) words() int {
	n := 0
	for i := range m.held {
		n += recordWords(&m.held[i])
	}
	return n
}

func (m *model) publish() {
	m.published = len(m.held)
	m.stats.Pushed += uint64(m.pending)
	m.pending = 0
}

func (m *model) push(s ccmap.Sample, batch int) bool {
	if n := recordWords(&s); m.words()+n > m.size {
		m.stats.Pushed++
		m.stats.Dropped++
		if n > m.size {
			m.stats.Oversized++
		}
		m.publish()
		return false
	}
	m.held = append(m.held, s)
	m.pending++
	if m.pending == batch {
		m.publish()
	}
	return true
}

func (m *model) drain() []ccmap.Sample {
	out := append([]ccmap.Sample(nil), m.held[:m.published]...)
	m.held = m.held[m.published:]
	m.stats.Delivered += uint64(m.published)
	m.published = 0
	return out
}

// One ring does what the model does, with records that wrap around in every way.
func TestRingAgainstModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		size := rapid.SampledFrom([]int{16, 32, 128}).Draw(r, "size")
		batch := rapid.IntRange(1, 12).Draw(r, "batch")
		q := New(Options{RingWords: size, Batch: batch})
		ring := q.Ring()
		m := &model{size: size, stats: Stats{Rings: 1}}
		r.Repeat(map[string]func(*rapid.T){
			"push": func(r *rapid.T) {
				s := samples(size).Draw(r, "sample")
				if got, want := ring.Push(&s), m.push(s, batch); got != want {
					r.Fatalf("push: %v, want %v", got, want)
				}
			},
			"publish": func(*rapid.T) { ring.Publish(); m.publish() },
			"reopen":  func(*rapid.T) { ring.Close(); ring = q.Ring(); m.publish() },
			"drain": func(r *rapid.T) {
				var got []ccmap.Sample
				q.Drain(func(s *ccmap.Sample) {
					kept := *s
					kept.Frames = slices.Clone(s.Frames)
					got = append(got, kept)
				})
				if diff := cmp.Diff(m.drain(), got); diff != "" {
					r.Fatalf("drained (-want +got):\n%s", diff)
				}
			},
			"": func(r *rapid.T) {
				if diff := cmp.Diff(m.stats, q.Stats()); diff != "" {
					r.Fatalf("stats (-want +got):\n%s", diff)
				}
			},
		})
	})
}

func TestNoAllocations(t *testing.T) {
	q := New(Options{})
	r := q.Ring()
	s := numbered(1, 40)
	fold := func(*ccmap.Sample) {}
	if n := testing.AllocsPerRun(1000, func() {
		for range 10 {
			r.Push(s)
		}
		q.Drain(fold)
	}); n != 0 {
		t.Errorf("%v allocations for ten pushes and a drain", n)
	}
	if st := q.Stats(); st.Dropped != 0 || st.Delivered == 0 {
		t.Errorf("the ring was not exercised: %+v", st)
	}
}

// samples draws samples with any value in every field.
func samples(maxFrames int) *rapid.Generator[ccmap.Sample] {
	frame := rapid.Custom(func(r *rapid.T) ccmap.Frame {
		return ccmap.Frame{Method: ccmap.MethodID(rapid.Uint32().Draw(r, "method")), Offset: rapid.Uint32().Draw(r, "offset")}
	})
	return rapid.Custom(func(r *rapid.T) ccmap.Sample {
		return ccmap.Sample{
			Frames:    rapid.SliceOfN(frame, 1, maxFrames).Draw(r, "frames"),
			Thread:    rapid.Uint64().Draw(r, "thread"),
			Goroutine: rapid.Uint64().Draw(r, "goroutine"),
			OSThread:  rapid.Uint32().Draw(r, "os thread"),
			Time:      rapid.Int64().Draw(r, "time"),
			Weight:    rapid.Int64().Draw(r, "weight"),
			Top:       ccmap.Repetition(rapid.Uint8().Draw(r, "top")),
			Fresh:     rapid.Int32().Draw(r, "fresh"),
			Depth:     rapid.Uint32().Draw(r, "depth"),
			Truncated: rapid.Bool().Draw(r, "truncated"),
			Early:     rapid.Bool().Draw(r, "early"),
			Hit:       rapid.Bool().Draw(r, "hit"),
		}
	})
}

func TestRecordRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		want := samples(200).Draw(r, "sample")
		w := make([]word, recordWords(&want), 300)
		encode(w, &want)
		var got ccmap.Sample
		if n := decode(&got, w[:cap(w)]); n != len(w) {
			r.Fatalf("decoded %d words of %d", n, len(w))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			r.Fatalf("sample changed (-pushed +delivered):\n%s", diff)
		}
		if cap(got.Frames) != len(got.Frames) {
			r.Fatalf("an append to the frames would overwrite the next record")
		}
	})
}

// A producer that waits loses nothing in a ring that has room for two samples.
func TestPushWaitingLosesNothing(t *testing.T) {
	t.Parallel()
	const samples = 500
	q := New(Options{RingWords: 32})
	var producer sync.WaitGroup
	producer.Go(func() {
		r := q.Ring()
		defer r.Close()
		for i := range int64(samples) {
			if !r.PushWaiting(numbered(i, 8), nil) {
				t.Errorf("sample %d was refused", i)
			}
		}
	})
	for next := int64(0); next < samples; {
		<-q.Ready()
		for _, got := range drained(q) {
			if got != next {
				t.Fatalf("sample %d after %d", got, next-1)
			}
			next++
		}
	}
	producer.Wait()
	checkStats(t, q, Stats{Pushed: samples, Delivered: samples, Rings: 1})
}

// If waiting cannot help, the sample is dropped and counted.
func TestPushWaitingGivesUp(t *testing.T) {
	t.Parallel()
	q := New(Options{RingWords: 32})
	r := q.Ring()
	stop := make(chan struct{})
	if r.PushWaiting(numbered(0, 26), stop) {
		t.Error("a sample larger than the ring was taken")
	}
	for i := range int64(2) {
		if !r.PushWaiting(numbered(i, 8), stop) {
			t.Errorf("sample %d was refused", i)
		}
	}
	close(stop)
	if r.PushWaiting(numbered(2, 8), stop) {
		t.Error("a full ring took a sample")
	}
	r.Close()
	if r.PushWaiting(numbered(3, 8), stop) {
		t.Error("a closed ring took a sample")
	}
	checkStats(t, q, Stats{Pushed: 5, Delivered: 0, Dropped: 3, Oversized: 1, Rings: 1})
}
