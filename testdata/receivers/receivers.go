// Package receivers is a program of indirect calls with known targets. The tests of
// receiver profiles take it as ground truth. Each of its sites is one call in one
// function that is never inlined:
//
//	monomorphic   a call through an interface that only one type implements
//	bimorphic     two types, 3 to 1
//	promoted      two types that embed the same base, whose method they promote:
//	              the interface table has their wrappers, a stack has the base
//	generic       two instances of one generic type
//	closure       calls of function values, whose times go against their counts
//	deliver       four types in all and one from each caller
//	relayed       the same, where only the caller's caller tells
//	forwarded     the same, where only the caller's caller's caller tells
//
// Every target burns a number of rounds that its type fixes, which takes CPU time in
// proportion: at one site, the share of the rounds is the share of the time. The order of
// the types is random, by a fixed seed, and each thousand turns of a worker have the same
// calls. A [Truth] counts both.
package receivers

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"syscall"
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

// Run calls its sites until the duration or the turns are over or the context is done,
// and returns the calls that it has made.
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

// change gives the sites of two types decks with exchanged shares.
func (w *worker) change() {
	w.shapes = newDeck(card[shape]{square{1}, 250}, card[shape]{circle{1}, 750})
	w.stacks = newDeck(card[pusher]{&stack[int]{calls: callStackInt}, 300},
		card[pusher]{&stack[string]{calls: callStackString}, 700})
}

//go:noinline
func (w *worker) changedTurn(i int, t *tally) { w.turn(i, t) }

// shuffle prevents a period that samples could be in step with.
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

// deckSize is the number of turns that have all shares exactly.
const deckSize = 1000

// deck is the input of a site, turn by turn.
type deck[T any] []T

// card is a value and its number in a deck.
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

// Main is the program: it takes the arguments after the program's name and returns the
// exit code. It prints "ready" when it begins, and its truth as JSON when it ends: by its
// flags, SIGINT or SIGTERM. SIGUSR1 begins its second phase.
func Main(args []string, stdout, stderr io.Writer) int {
	var o Options
	f := flag.NewFlagSet("receivers", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.DurationVar(&o.Duration, "d", 0, "how long; 0: until interrupted")
	f.Int64Var(&o.Turns, "turns", 0, "how many turns each worker takes; 0: no limit")
	f.IntVar(&o.Workers, "n", 0, "workers; 0: one for each processor")
	if err := f.Parse(args); err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	phase, ended := signal.NotifyContext(ctx, syscall.SIGUSR1)
	defer ended()
	o.Change = phase.Done()
	fmt.Fprintln(stdout, "ready")
	if err := json.NewEncoder(stdout).Encode(Run(ctx, o)); err != nil {
		fmt.Fprintln(stderr, "receivers:", err)
		return 1
	}
	return 0
}
