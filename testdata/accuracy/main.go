// Command accuracy is 14 small programs in one, after the tests of which the
// paper gives the agreement of profiles (Table 1): several threads format,
// parse, convert and compare values of one kind, and check every result.
//
//	go build -o accuracy ./testdata/accuracy
//	./accuracy -workload int16 -rounds 5000
//
// scripts/accuracy samples it. A run is a number of rounds, and what a round
// does depends on the seed only: two runs make the same calls, on threads that
// the scheduler mixes as it likes. In the end the program prints, as JSON, the
// CPU time that it took.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// workloads has one entry for each row of the paper's table, by the name there
// without its number. It opens what the threads of a run share.
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

// run is the program; it returns the exit code.
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

// outcome is what the program prints.
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
