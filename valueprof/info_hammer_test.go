package valueprof

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
)

// fakeBody counts what is done to it.
type fakeBody struct {
	calls  atomic.Uint64
	tended atomic.Int64
	freed  atomic.Int64
}

func (b *fakeBody) Tend(*Janitor) bool { b.tended.Add(1); return false }
func (b *fakeBody) Evidence() Evidence { return Evidence{Calls: b.calls.Load()} }
func (b *fakeBody) Free()              { b.freed.Add(1) }

// runJanitor starts a janitor and returns it with what stops it.
func runJanitor(o JanitorOptions) (j *Janitor, stop func()) {
	j = NewJanitor(o)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		j.Run(ctx)
	}()
	return j, func() { cancel(); <-done }
}

// TestInfoHammer has writers renew the infos of a few methods, readers hold and
// use them, and the janitor tend and free, all at once. Nobody finds a freed
// body, and in the end all are freed, once.
func TestInfoHammer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	rounds := 4000
	if testing.Short() {
		rounds = 500
	}
	h := &infoHammer{t: t, methods: make([]History, 5)}
	var stop func()
	h.janitor, stop = runJanitor(JanitorOptions{})
	var all sync.WaitGroup
	for seed := range uint64(3) {
		all.Go(func() { h.renew(rand.New(rand.NewPCG(seed, 0)), rounds) })
		all.Go(func() { h.read(rand.New(rand.NewPCG(seed, 1)), rounds) })
	}
	all.Wait()
	for i := range h.methods {
		h.methods[i].Drop()
	}
	stop()
	h.checkAllFreed()
}

type infoHammer struct {
	t       *testing.T
	janitor *Janitor
	methods []History
	mu      sync.Mutex
	bodies  []*fakeBody
	infos   []*Info
}

// renew is a writer: it opens a body, records, and closes it.
func (h *infoHammer) renew(rng *rand.Rand, rounds int) {
	for range rounds {
		b := &fakeBody{}
		i := NewInfo(h.janitor, b)
		h.mu.Lock()
		h.bodies, h.infos = append(h.bodies, b), append(h.infos, i)
		h.mu.Unlock()
		h.methods[rng.IntN(len(h.methods))].Renew(i)
		for range rng.IntN(8) {
			b.calls.Add(uint64(rng.IntN(100)))
			i.Added(100)
		}
		i.Release()
	}
}

// read is a reader: it holds the best infos of some methods for a while.
func (h *infoHammer) read(rng *rand.Rand, rounds int) {
	for range rounds {
		var a Accessed
		for range 1 + rng.IntN(4) {
			a.Best(&h.methods[rng.IntN(len(h.methods))])
		}
		for _, i := range a.infos {
			if b := i.Body().(*fakeBody); b.freed.Load() != 0 {
				h.t.Error("held info was freed")
			}
			i.Added(1)
		}
		a.Release()
	}
}

func (h *infoHammer) checkAllFreed() {
	for n, b := range h.bodies {
		if freed := b.freed.Load(); freed != 1 {
			h.t.Fatalf("body %d of %d was freed %d times", n, len(h.bodies), freed)
		}
		if h.infos[n].TryRetain() {
			h.t.Fatalf("info %d came back to life", n)
		}
	}
	if i := h.janitor.all.Load(); i != nil {
		h.t.Errorf("still listed: %+v", i)
	}
}

// TestListHammer adds to the list while the janitor removes from its front and
// its middle.
func TestListHammer(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	j, stop := runJanitor(JanitorOptions{})
	const adders, each = 4, 5000
	kept := make([][]*Info, adders)
	var freed atomic.Int64
	var all sync.WaitGroup
	for a := range adders {
		all.Go(func() {
			for n := range each {
				i := NewInfo(j, countFrees{&freed})
				if n%5 == a {
					kept[a] = append(kept[a], i)
				} else {
					i.Release()
				}
			}
		})
	}
	all.Wait()
	stop()
	if got, want := freed.Load(), int64(adders*each*4/5); got != want {
		t.Errorf("%d freed, want %d", got, want)
	}
	checkListed(t, j, kept)
}

type countFrees struct{ n *atomic.Int64 }

func (countFrees) Tend(*Janitor) bool { return false }
func (countFrees) Evidence() Evidence { return Evidence{} }
func (c countFrees) Free()            { c.n.Add(1) }

// checkListed makes sure that the list has what was kept, each once.
func checkListed(t *testing.T, j *Janitor, kept [][]*Info) {
	t.Helper()
	want := map[*Info]bool{}
	for _, k := range kept {
		for _, i := range k {
			want[i] = true
		}
	}
	for i := j.all.Load(); i != nil; i = i.next {
		if !want[i] {
			t.Fatal("listed twice, or though it was freed")
		}
		delete(want, i)
	}
	if len(want) != 0 {
		t.Errorf("%d are not listed", len(want))
	}
}
