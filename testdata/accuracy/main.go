// Command accuracy is 14 small programs in one, modelled on the tests for which the paper
// gives the agreement of profiles (Table 1): several threads format, parse, convert and
// compare values of one kind, and check every result.
//
//	go build -o accuracy ./testdata/accuracy
//	./accuracy -workload int16 -rounds 5000
//
// scripts/accuracy samples it. A run is a number of rounds. A round depends on the seed
// only: two runs make the same calls, on threads that the scheduler mixes as it likes. At
// the end the program prints its CPU time, as JSON.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// workloads has an entry for each row of the paper's table, by the row's name without its
// number. It opens the shared state of a run's threads.
var workloads = map[string]func() check{
	"int32":         stateless(checkIntegers[int32]),
	"int16":         stateless(checkIntegers[int16]),
	"sbyte":         stateless(checkIntegers[int8]),
	"intptr":        stateless(checkIntegers[int]),
	"uint16":        stateless(checkIntegers[uint16]),
	"uint32":        stateless(checkIntegers[uint32]),
	"byte":          stateless(checkIntegers[uint8]),
	"uintptr":       stateless(checkIntegers[uintptr]),
	"char":          stateless(checkChars),
	"boolean":       stateless(checkBooleans),
	"enum":          openEnums,
	"stringbuilder": stateless(checkStringBuilder),
	"console":       openConsole,
	"single":        stateless(checkSingles),
}

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run is the program. It returns the exit code.
func run(args []string, stdout, stderr io.Writer) int {
	var o options
	f := flag.NewFlagSet("accuracy", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&o.workload, "workload", "int32", "one of "+strings.Join(slices.Sorted(maps.Keys(workloads)), ", "))
	f.IntVar(&o.threads, "threads", 4, "how many `THREADS` do the same")
	f.IntVar(&o.rounds, "rounds", 1000, "how often each does it")
	f.Uint64Var(&o.seed, "seed", 1, "of the values that are drawn")
	if err := f.Parse(args); err != nil {
		return 2
	}
	if err := o.run(); err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 1
	}
	cpu, err := cpuTime()
	if err != nil {
		fmt.Fprintln(stderr, "accuracy:", err)
		return 1
	}
	json.NewEncoder(stdout).Encode(outcome{o.workload, o.rounds, cpu})
	return 0
}

// outcome is the program's output.
type outcome struct {
	Workload string
	Rounds   int           // of each thread
	CPU      time.Duration // of all threads, ns
}

// cpuTime returns the CPU time of this process.
func cpuTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("read CPU clock of process: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}

// check is one round of a workload, for values drawn from r. It returns an error for the
// first wrong result. All threads call the same check.
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

// repeat is a thread's work. It keeps its goroutine on a thread, like the paper's tests,
// whose threads belonged to the operating system.
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

// boxed is a value behind an interface, as in the paper's tests.
type boxed interface {
	Equals(other any) bool
	CompareTo(other any) (int, error)
	Hash() uint64
	String() string
}

// errType says that values of different types were compared.
var errType = errors.New("values of different types")

// checkBoxes compares two boxed values in all ways. want is the comparison of their
// values.
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
