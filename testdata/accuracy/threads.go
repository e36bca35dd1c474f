package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
)

// check is one round of a workload, for values drawn from r. It returns an error
// for the first result that is wrong. All threads call the same one.
type check func(r *rand.Rand) error

// stateless opens a check whose threads share nothing.
func stateless(c check) func() check { return func() check { return c } }

type options struct {
	workload string
	threads  int
	rounds   int
	seed     uint64
}

// run lets all threads do their rounds.
func (o options) run() error {
	open, ok := workloads[o.workload]
	if !ok {
		return fmt.Errorf("no workload %q", o.workload)
	}
	c := open()
	errs := make([]error, o.threads)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() { errs[i] = c.repeat(o.rounds, rand.New(rand.NewPCG(o.seed, uint64(i)))) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// repeat is what a thread does. It keeps its goroutine, as the threads of the
// paper's tests were those of the operating system.
func (c check) repeat(rounds int, r *rand.Rand) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for i := range rounds {
		if err := c(r); err != nil {
			return fmt.Errorf("round %d: %w", i, err)
		}
	}
	return nil
}

// same returns an error unless both values are equal.
func same[T comparable](what string, got, want T) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("%s: got %v, want %v", what, got, want)
}

// first returns the first error.
func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// boxed is a value behind an interface, as the paper's tests box theirs.
type boxed interface {
	Equals(other any) bool
	CompareTo(other any) (int, error)
	Hash() uint64
	String() string
}

// errType says that values of different types were compared.
var errType = errors.New("values of different types")

// checkBoxes compares two boxed values in all ways, given how their values
// compare.
func checkBoxes(a, b boxed, want int) error {
	got, err := a.CompareTo(b)
	if err != nil {
		return err
	}
	back, err := b.CompareTo(a)
	if err != nil {
		return err
	}
	_, typeError := a.CompareTo("a string")
	return first(
		same("compare", got, want),
		same("compare back", back, -want),
		same("equals", a.Equals(b), want == 0),
		same("equal hashes of "+a.String(), want != 0 || a.Hash() == b.Hash(), true),
		same("compare with a string", errors.Is(typeError, errType), true),
	)
}
