package valueprof

import (
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// A writer's counts come with the Collect after the one that asked for them.
func TestCollect(t *testing.T) {
	t.Parallel()
	s, into := NewShared(3, HashAuto), New(3, HashAuto)
	s.Collect(into)
	l := s.Join()
	if silent := s.Collect(into); silent != 0 {
		t.Error("a writer that never counted is silent")
	}
	l.Add(1)
	l.Add(1)
	if silent := s.Collect(into); silent != 0 || into.Total() != 0 {
		t.Errorf("before it asked: %d silent, %d counts", silent, into.Total())
	}
	if silent := s.Collect(into); silent != 1 || into.Total() != 0 {
		t.Errorf("without an answer: %d silent, %d counts", silent, into.Total())
	}
	l.Add(1)
	if silent := s.Collect(into); silent != 0 || into.Total() != 2 {
		t.Errorf("answered: %d silent, %d counts", silent, into.Total())
	}
	l.Release()
	l.Release()
	s.Collect(into)
	if diff := cmp.Diff([]Value{{1, 3}}, into.AppendValues(nil)); diff != "" {
		t.Error(diff)
	}
	if n := s.Writers(); n != 0 {
		t.Errorf("%d writers", n)
	}
}

// A parked writer holds nothing back, is not silent, and goes on as if nothing
// had been.
func TestPark(t *testing.T) {
	t.Parallel()
	s, into := NewShared(3, HashAuto), New(3, HashAuto)
	l := s.Join()
	for round := uint64(1); round <= 3; round++ {
		l.Add(7)
		l.Park()
		l.Park()
		for range 2 {
			if silent := s.Collect(into); silent != 0 || into.Total() != round {
				t.Errorf("round %d: %d silent, %d counts", round, silent, into.Total())
			}
		}
	}
	l.Add(7)
	l.Park()
	l.Add(7)
	s.Collect(into)
	if silent := s.Collect(into); silent != 1 {
		t.Error("a writer that went on and then stopped is taken for a parked one")
	}
	runtime.KeepAlive(l)
}

// A writer that ends without a word leaves its counts behind all the same.
func TestDeadWriter(t *testing.T) {
	t.Parallel()
	s, into := NewShared(3, HashAuto), New(3, HashAuto)
	var writers sync.WaitGroup
	for range 4 {
		writers.Go(func() {
			l := s.Join()
			for v := range uint64(1000) {
				l.Add(v % 5)
			}
		})
	}
	writers.Wait()
	collectAll(s, into)
	if into.Total() != 4000 {
		t.Errorf("%d counts of 4000", into.Total())
	}
}

// collectAll waits until no writer is left, and collects.
func collectAll(s *Shared, into *Table) {
	for s.Writers() > 0 {
		runtime.GC() // finds the dead
		runtime.Gosched()
	}
	s.Collect(into)
}

// A writer that goes on after its end is told so: its counts would come to nobody,
// or to the next writer of its place.
func TestUseAfterRelease(t *testing.T) {
	t.Parallel()
	uses := map[string]func(*Local){
		"Hit":  func(l *Local) { l.Hit(0) },
		"Miss": func(l *Local) { l.Miss(5) },
		"Add":  func(l *Local) { l.Add(math.MaxUint64) },
		"Park": (*Local).Park,
	}
	for name, use := range uses {
		l := NewShared(3, HashAuto).Join()
		l.Add(1)
		l.Release()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s after Release does not panic", name)
				}
			}()
			use(l)
		}()
	}
}

// What a writer writes on a hit, and what it reads, shares no cache line with
// what another goroutine writes.
func TestWriterHasItsCacheLines(t *testing.T) {
	t.Parallel()
	for capacity := MinCapacity; capacity <= MaxCapacity; capacity++ {
		s := NewShared(capacity, HashAuto)
		for range 3 {
			l := s.Join()
			for what, at := range map[string]unsafe.Pointer{
				"Local": unsafe.Pointer(l), "slots": l.t.slots, "index": l.t.index, "place": unsafe.Pointer(l.place),
			} {
				if uintptr(at)%lineBytes != 0 {
					t.Errorf("capacity %d: %s at %p", capacity, what, at)
				}
			}
			l.Release()
		}
	}
}

// However far the collector is behind, a writer has two tables.
func TestCollectorBehind(t *testing.T) {
	t.Parallel()
	s, into := NewShared(3, HashAuto), New(3, HashAuto)
	l := s.Join()
	tables := map[unsafe.Pointer]bool{}
	for v := range uint64(100) {
		l.Add(v % 3)
		l.Park()
		tables[l.t.slots] = true
		tables[l.place.handed.Load().slots] = true
	}
	if len(tables) != 2 {
		t.Errorf("%d tables", len(tables))
	}
	s.Collect(into)
	if diff := cmp.Diff([]Value{{0, 34}, {1, 33}, {2, 33}}, into.AppendValues(nil)); diff != "" {
		t.Error(diff)
	}
	l.Release()
	if next := s.Join(); !tables[next.t.slots] {
		t.Error("the next writer got a new table")
	}
}

// Nor do writers that come and go leave memory behind, or counts, while nobody
// collects.
func TestWritersComeAndGo(t *testing.T) {
	t.Parallel()
	s, into := NewShared(3, HashAuto), New(3, HashAuto)
	const rounds = 100
	tables := map[unsafe.Pointer]bool{}
	for v := range uint64(rounds) {
		one, two := s.Join(), s.Join()
		tables[one.t.slots], tables[two.t.slots] = true, true
		one.Add(v)
		two.Add(v)
		one.Release()
		two.Release()
	}
	if len(s.places) != 2 || len(tables) > 4 || s.Writers() != 0 {
		t.Errorf("%d places and %d tables for two writers, %d left", len(s.places), len(tables), s.Writers())
	}
	if s.Collect(into); into.Total() != 2*rounds {
		t.Errorf("%d counts of %d", into.Total(), 2*rounds)
	}
}

func TestHandOverAllocatesNothing(t *testing.T) {
	s, into := NewShared(8, HashAuto), New(8, HashAuto)
	l := s.Join()
	var v uint64
	round := func() {
		for range 100 {
			v++
			l.Add(v % 10)
		}
		s.Collect(into)
	}
	round()
	round()
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

// A crowd is some writers, their collector, and how much was added. The collector
// may be halfway through a place, with the table that it took from there.
type crowd struct {
	s     *Shared
	live  []*Local
	into  *Table
	at    *place
	taken *Table
	added uint64
}

// takes is the first half of the collector's work at a place that it comes to.
func (c *crowd) takes(t *rapid.T) {
	if c.taken != nil || len(c.s.places) == 0 {
		t.Skip("busy, or nowhere to go")
	}
	c.at = rapid.SampledFrom(c.s.places).Draw(t, "place")
	c.taken = c.at.handed.Swap(nil)
}

// drains is the second.
func (c *crowd) drains(t *rapid.T) {
	if c.taken == nil {
		t.Skip("nothing taken")
	}
	c.at.drain(c.taken, c.into)
	c.taken = nil
}

// collects is both, at all places.
func (c *crowd) collects(t *rapid.T) {
	if c.taken != nil {
		t.Skip("busy")
	}
	c.s.Collect(c.into)
}

// accounted returns all counts, wherever they are now.
func (c *crowd) accounted() uint64 {
	total := c.into.Total()
	for _, l := range c.live {
		total += l.t.Total()
	}
	for _, p := range c.s.places {
		if t := p.handed.Load(); t != nil {
			total += t.Total()
		}
	}
	if c.taken != nil {
		total += c.taken.Total()
	}
	return total
}

// No interleaving of adds, parking, release, the two halves of collection, decay
// and reset loses or invents a count, leaves a table in two hands, or needs more
// than three for a writer.
func TestHandOverInterleaved(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		h := rapid.SampledFrom(Hashes()).Draw(t, "hash")
		c := &crowd{s: NewShared(3, h), into: New(4, h)}
		c.live = append(c.live, c.s.Join())
		one := func(t *rapid.T) int {
			if len(c.live) == 0 {
				t.Skip("nobody")
			}
			return rapid.IntRange(0, len(c.live)-1).Draw(t, "writer")
		}
		add := func(t *rapid.T) {
			c.live[one(t)].Add(rapid.Uint64Range(0, 9).Draw(t, "value"))
			c.added++
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": add, "add more": add, "add again": add,
			"join": func(*rapid.T) { c.live = append(c.live, c.s.Join()) },
			"park": func(t *rapid.T) { c.live[one(t)].Park() },
			"release": func(t *rapid.T) {
				i := one(t)
				c.live[i].Release()
				c.live = append(c.live[:i], c.live[i+1:]...)
			},
			"takes": c.takes, "drains": c.drains, "collect": c.collects,
			"decay": func(*rapid.T) { c.into.Decay() },
			"reset": func(*rapid.T) { c.into.Reset() },
			"":      c.check,
		})
		for _, l := range c.live {
			l.Release()
		}
		if c.taken != nil {
			c.drains(t)
		}
		if c.s.Collect(c.into); c.into.Total() != c.added {
			t.Fatalf("%d counts of %d", c.into.Total(), c.added)
		}
	})
}

func (c *crowd) check(t *rapid.T) {
	if got := c.accounted(); got != c.added {
		t.Fatalf("%d counts of %d", got, c.added)
	}
	var tables []*Table
	for _, l := range c.live {
		tables = append(tables, &l.t)
	}
	for _, p := range c.s.places {
		for _, held := range []*Table{p.handed.Load(), p.spare.Load()} {
			if held != nil {
				tables = append(tables, held)
			}
		}
	}
	if c.taken != nil {
		tables = append(tables, c.taken)
	}
	if len(tables) > 3*len(c.s.places) {
		t.Fatalf("%d tables for %d writers", len(tables), len(c.s.places))
	}
	hands := map[unsafe.Pointer]bool{}
	for _, held := range tables {
		if hands[held.slots] {
			t.Fatal("a table in two hands")
		}
		hands[held.slots] = true
	}
}

// Writers come, count, park, are released or forgotten, all at once and under a
// collector that never rests.
func TestHandOverHammer(t *testing.T) {
	t.Parallel()
	const writers, adds = 8, 20_000
	for _, h := range Hashes() {
		s, into := NewShared(7, h), New(7, h)
		var added atomic.Uint64
		var done atomic.Bool
		var group, collector sync.WaitGroup
		for w := range uint64(writers) {
			group.Go(func() { added.Add(hammer(s, w, adds)) })
		}
		collector.Go(func() {
			for !done.Load() {
				s.Collect(into)
				if into.Other() > into.Matched() {
					into.Decay()
				}
				runtime.Gosched()
			}
		})
		group.Wait()
		done.Store(true)
		collector.Wait()
		collectAll(s, into)
		if into.Total() != added.Load() {
			t.Errorf("%v: %d counts of %d", h, into.Total(), added.Load())
		}
	}
}

// hammer is one goroutine that is several writers, one after the other.
func hammer(s *Shared, seed uint64, adds int) (added uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	l := s.Join()
	for range adds {
		switch r.IntN(1000) {
		case 0:
			l.Park()
		case 1:
			l.Release()
			l = s.Join()
		case 2:
			l = s.Join() // forgets the last
		default:
			l.Add(r.Uint64N(12))
			added++
		}
	}
	return added
}
