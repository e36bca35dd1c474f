package store

import (
	"errors"
	"sort"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/export"
)

// parts returns a store with two files and two running profiles of two streams each, all of other contexts, and their
// entries: the files first.
func parts(t *testing.T) (*Reader, []Entry) {
	t.Helper()
	s := mustOpen(t, Options{Dir: t.TempDir()})
	methods := 0
	other := func() *program {
		methods += 100
		p := newProgram(methods, 300) // other methods of other files
		for _, stack := range p.stacks {
			p.fold(stack)
		}
		return p
	}
	for i := range 2 {
		fileAt(t, s, web, day.Add(time.Duration(i)*time.Hour), other().m.Snapshot())
	}
	for _, build := range []string{"a", "b"} {
		for range 2 {
			stream := s.NewStream(Key{Target: "web", Build: build})
			if err := s.Append(Frame{Stream: stream, From: day, To: day, Delta: other().m.Snapshot()}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var files, running []Entry
	for _, e := range s.Reader().List(Filter{Running: true}).Entries {
		switch e.Kind {
		case KindPeriod:
			files = append(files, e)
		case KindRunning:
			running = append(running, e)
		}
	}
	if len(files) != 2 || len(running) != 2 {
		t.Fatalf("%d files, %d running", len(files), len(running))
	}
	return s.Reader(), append(files, running...)
}

// Steps bound all parts of a sum together: as many as it takes are enough, and one less is too few.
func TestStepsOfASum(t *testing.T) {
	t.Parallel()
	r, all := parts(t)
	takes := func(entries []Entry) int64 {
		t.Helper()
		var steps atomic.Int64
		if _, err := r.Within(export.ReadOptions{MaxSteps: 1 << 40, Steps: &steps}).Sum(entries); err != nil {
			t.Fatal(err)
		}
		n := steps.Load()
		if _, err := r.Within(export.ReadOptions{MaxSteps: n}).Sum(entries); err != nil {
			t.Errorf("of %d steps: %v", n, err)
		}
		if _, err := r.Within(export.ReadOptions{MaxSteps: n - 1}).Sum(entries); !errors.Is(err, export.ErrTooLarge) {
			t.Errorf("of %d steps but one: %v", n, err)
		}
		return n
	}
	sum := int64(0)
	for i := range all {
		n := takes(all[i : i+1])
		if n < all[i].Size {
			t.Errorf("part %d of %d bytes takes %d steps", i, all[i].Size, n)
		}
		sum += n
	}
	if n := takes(all); n != sum {
		t.Errorf("all take %d steps, and each for itself %d", n, sum)
	}
}

// Memory bounds a sum and the part that is added to it together.
func TestMemoryOfASum(t *testing.T) {
	t.Parallel()
	r, all := parts(t)
	const unit, most = 16 << 10, 64 << 20 // bytes
	needs := func(entries []Entry) int64 {
		return unit * int64(sort.Search(most/unit, func(n int) bool {
			_, err := r.Within(export.ReadOptions{MaxMemory: int64(n) * unit}).Sum(entries)
			if err != nil && !errors.Is(err, export.ErrMemory) && !errors.Is(err, export.ErrTooLarge) {
				t.Fatal(err)
			}
			return err == nil
		}))
	}
	for _, first := range []int{0, 2} { // files, and running ones
		m, err := r.Sum(all[first : first+1])
		if err != nil {
			t.Fatal(err)
		}
		one, both := needs(all[first+1:first+2]), needs(all[first:first+2])
		if held := export.MapMemory(m); both < one+held/2 || both >= most {
			t.Errorf("part %d: the second needs %d bytes, and with the first, of %d, %d", first, one, held, both)
		}
	}
}

// What a sum reserves is what it takes, and it ends where it gets no more.
func TestReservedForASum(t *testing.T) {
	t.Parallel()
	r, all := parts(t)
	full := errors.New("all memory is reserved")
	var asked []int64
	for end := -1; end < len(asked); end++ {
		n, most := 0, int64(0)
		_, err := r.Within(export.ReadOptions{Reserve: func(bytes int64) error {
			if most = max(most, bytes); end < 0 {
				asked = append(asked, bytes)
			}
			if n++; n == end+1 {
				return full
			}
			return nil
		}}).Sum(all)
		if end >= 0 && (!errors.Is(err, full) || n != end+1) || end < 0 && err != nil {
			t.Fatalf("at call %d of %d: %v", end, n, err)
		}
	}
	m, err := r.Sum(all)
	if err != nil {
		t.Fatal(err)
	}
	if held := export.MapMemory(m); len(asked) < 2*len(all) || asked[len(asked)-1] != held {
		t.Errorf("the sum holds %d bytes; asked for %d", held, asked)
	}
}
