package receivers

import (
	"context"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"time"
)

// Options of a run. The zero value runs until it is stopped.
type Options struct {
	Duration time.Duration // 0: until the context is done
	Turns    int64         // of each worker; 0: until then
	Workers  int           // goroutines; 0: one for each processor

	// Change begins a new phase when it is closed: the types of the sites bimorphic and
	// generic exchange their shares, and turns get another caller. Nil: never.
	Change <-chan struct{}
}

// changed reports whether the new phase has begun.
func (o Options) changed() bool {
	select {
	case <-o.Change:
		return true
	default:
		return false
	}
}

// Run calls its sites until the duration or the turns are over or the context is
// done, and returns what it has called.
func Run(ctx context.Context, o Options) Truth {
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	if o.Turns <= 0 {
		o.Turns = math.MaxInt64
	}
	if o.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.Duration)
		defer cancel()
	}
	tallies := make([]tally, o.Workers)
	var all sync.WaitGroup
	for i := range tallies {
		all.Go(func() { newWorker(uint64(i)).run(ctx, o, &tallies[i]) })
	}
	all.Wait()
	return truth(tallies)
}

// worker calls every site once a turn.
type worker struct {
	quartz  quartz
	letter  letter
	parcel  parcel
	receipt receipt
	alarm   alarm

	random    *rand.Rand
	shapes    deck[shape]
	vehicles  deck[vehicle]
	stacks    deck[pusher]
	functions deck[func(*tally)]
	callers   deck[int]
}

func newWorker(seed uint64) *worker {
	f := functions()
	return &worker{
		random: rand.New(rand.NewPCG(1, seed)),
		shapes: newDeck(card[shape]{square{1}, 750}, card[shape]{circle{1}, 250}),
		vehicles: newDeck(card[vehicle]{&cart{base: base{callCart, short}}, 600},
			card[vehicle]{&van{base: &base{callVan, short}}, 400}),
		stacks: newDeck(card[pusher]{&stack[int]{calls: callStackInt}, 700},
			card[pusher]{&stack[string]{calls: callStackString}, 300}),
		functions: newDeck(card[func(*tally)]{f[0], 500}, card[func(*tally)]{f[1], 300}, card[func(*tally)]{f[2], 200}),
		callers:   newDeck(card[int]{0, 400}, card[int]{1, 300}, card[int]{2, 200}, card[int]{3, 100}),
	}
}

func (w *worker) run(ctx context.Context, o Options, result *tally) {
	var t tally // not shared with the other workers' cache lines
	turn := w.turn
	for i := range o.Turns {
		if ctx.Err() != nil {
			break
		}
		if i%deckSize == 0 {
			if o.changed() {
				w.change()
				turn, o.Change = w.changedTurn, nil
			}
			w.shuffle()
		}
		turn(int(i%deckSize), &t)
	}
	*result = t
}

// change gives the sites of two types decks with the shares of the two exchanged.
func (w *worker) change() {
	w.shapes = newDeck(card[shape]{square{1}, 250}, card[shape]{circle{1}, 750})
	w.stacks = newDeck(card[pusher]{&stack[int]{calls: callStackInt}, 300},
		card[pusher]{&stack[string]{calls: callStackString}, 700})
}

//go:noinline
func (w *worker) changedTurn(i int, t *tally) { w.turn(i, t) }

// shuffle leaves no period that samples could be in step with.
func (w *worker) shuffle() {
	w.shapes.shuffle(w.random)
	w.vehicles.shuffle(w.random)
	w.stacks.shuffle(w.random)
	w.functions.shuffle(w.random)
	w.callers.shuffle(w.random)
}

func (w *worker) turn(i int, t *tally) {
	monomorphic(&w.quartz, t)
	bimorphic(w.shapes[i], t)
	promoted(w.vehicles[i], t)
	generic(w.stacks[i], t)
	closure(w.functions[i], t)
	switch w.callers[i] {
	case 0:
		post(&w.letter, t)
	case 1:
		shop(&w.parcel, t)
	case 2:
		bank(&w.receipt, t)
	case 3:
		guard(&w.alarm, t)
	}
}

// deckSize is how many turns have all shares exactly.
const deckSize = 1000

// deck is what one site is given, turn by turn.
type deck[T any] []T

// card is a value and how often it is in a deck.
type card[T any] struct {
	value T
	times int
}

func newDeck[T any](cards ...card[T]) deck[T] {
	var d deck[T]
	for _, c := range cards {
		for range c.times {
			d = append(d, c.value)
		}
	}
	return d
}

func (d deck[T]) shuffle(r *rand.Rand) {
	r.Shuffle(len(d), func(i, j int) { d[i], d[j] = d[j], d[i] })
}
