// Command record writes the verdicts on one goroutine's innermost activations, sample by
// sample, for the tests of package tuning to replay:
//
//	go build -o workload ./cmd/ccmapd/internal/demo/main
//	taskset -c 1 ./workload -mode spin -spin 80ms &
//	go -C scripts run ./record -d 12s $! >testdata/recorded/spin-80ms.txt
//
// It takes the goroutine with the most samples. The output opens with lines that begin
// with # and give the recording's origin. All other lines hold one letter a sample, in
// the order of time: n for a new activation, r for a repeated one, u without a verdict.
//
// A target on a single CPU gives the most even samples: for a thread that moves, each CPU
// counts the interval by itself.
//
// With -stacks it writes all samples of all goroutines, in the format of package
// recorded:
//
//	go -C scripts run ./record -stacks -d 10s $! >testdata/recorded/server.stacks.gz
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

func main() {
	duration := flag.Duration("d", 12*time.Second, "how long to record")
	interval := flag.Duration("i", time.Millisecond, "CPU time between two samples")
	stacks := flag.Bool("stacks", false, "write all samples with their stacks, not the verdicts")
	flag.Parse()

	record := recordVerdicts
	if *stacks {
		record = recordStacks
	}
	pid, err := strconv.Atoi(flag.Arg(0))
	if err != nil || flag.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: record [-stacks] [-d DURATION] [-i INTERVAL] PID")
		os.Exit(2)
	}
	if err := record(os.Stdout, pid, *duration, *interval); err != nil {
		fmt.Fprintln(os.Stderr, "record:", err)
		os.Exit(1)
	}
}

func recordVerdicts(w io.Writer, pid int, duration, interval time.Duration) error {
	verdicts := make(map[uint64][]byte) // by goroutine
	o := sampler.ProcessOptions{
		PID:         pid,
		Interval:    interval,
		Watchpoints: 4, // all that an x86 CPU has
		WatchBudget: 1, // a verdict on every sample, at any cost
	}
	source, err := sample(o, duration, func(s *ccmap.Sample, _ *ccmap.Names) {
		verdicts[s.Thread] = append(verdicts[s.Thread], letter(s))
	})
	most := longest(verdicts)
	switch {
	case err != nil:
		return err
	case source.Stats().Counts[sampler.Watchpoints] == 0:
		return errors.New("no hardware watchpoints here: no sample has a verdict")
	case len(most) == 0:
		return fmt.Errorf("no samples: process %d used no CPU time", pid)
	}
	return write(w, header(source.Info().Target, source.Stats().Interval), most)
}

// sample samples a process for some time.
func sample(o sampler.ProcessOptions, duration time.Duration, take func(*ccmap.Sample, *ccmap.Names)) (source campaign.Source, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), duration)
	defer cancel()
	err = campaign.Perf.Sample(ctx, o, func(ctx context.Context, s campaign.Source) error {
		source = s
		<-ctx.Done()
		return nil
	}, take)
	return source, err
}

// letter returns the verdict on a sample. An early sample has none, as for the tuner.
func letter(s *ccmap.Sample) byte {
	switch {
	case s.Early || s.Top == ccmap.TopUnknown:
		return 'u'
	case s.Top == ccmap.TopRepeated:
		return 'r'
	}
	return 'n'
}

func longest(verdicts map[uint64][]byte) []byte {
	var most []byte
	for _, v := range verdicts {
		if len(v) > len(most) {
			most = v
		}
	}
	return most
}

func header(t ccmap.Target, interval time.Duration) string {
	return fmt.Sprintf("# command: %s\n# date: %s\n# target: %s; kernel: %s\n# interval: %v\n",
		commandLine(t), time.Now().UTC().Format(time.DateOnly), t.Runtime, report.Kernel(), interval)
}

// commandLine returns the target's command line, without the folder of its program.
func commandLine(t ccmap.Target) string {
	command := slices.Clone(t.CommandLine)
	if len(command) > 0 {
		command[0] = filepath.Base(command[0])
	}
	return strings.Join(command, " ")
}

func write(w io.Writer, header string, verdicts []byte) error {
	out := bufio.NewWriter(w)
	out.WriteString(header)
	for line := range slices.Chunk(verdicts, 80) {
		out.Write(line)
		out.WriteByte('\n')
	}
	return out.Flush() // returns all earlier errors
}
