package demo

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"
)

// settings are Options and the program's own.
type settings struct {
	Options
	hold       bool
	attended   bool
	truth      bool
	cpuProfile string
}

// Main is the program: it takes the arguments after the program's name and returns the
// exit code. SIGINT and SIGTERM end the work like its duration.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	s, err := parseFlags(args, stderr)
	if err != nil {
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := s.run(ctx, stdin, stdout); err != nil {
		fmt.Fprintln(stderr, "workload:", err)
		return 1
	}
	return 0
}

func parseFlags(args []string, stderr io.Writer) (settings, error) {
	var s settings
	f := flag.NewFlagSet("workload", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.StringVar(&s.Mode, "mode", "server", "kind of work: "+strings.Join(modeNames(), ", "))
	f.DurationVar(&s.Duration, "d", 0, "how long; 0: until interrupted")
	f.Int64Var(&s.Requests, "requests", 0, "how many requests or rounds; 0: no limit")
	f.IntVar(&s.Workers, "n", 0, "clients, goroutines, threads or depth; 0: the mode's default")
	f.DurationVar(&s.Spin, "spin", defaultSpin, "CPU time of one call in mode spin")
	f.BoolVar(&s.hold, "hold", false, "begin when standard input has a line or ends")
	f.BoolVar(&s.attended, "attended", false, "end when standard input ends")
	f.BoolVar(&s.truth, "truth", false, "print the counts of calls, as JSON")
	f.StringVar(&s.cpuProfile, "cpuprofile", "", "write the runtime's own CPU profile to `file`")
	return s, f.Parse(args)
}

// run prints "ready" when ccmapd can attach to it, and works after that.
func (s settings) run(ctx context.Context, stdin io.Reader, stdout io.Writer) (err error) {
	fmt.Fprintln(stdout, "ready")
	if s.hold {
		waitForLine(stdin)
	}
	if s.attended {
		ctx = untilEnd(ctx, stdin)
	}
	if s.cpuProfile != "" {
		stop, err := startProfile(s.cpuProfile)
		if err != nil {
			return err
		}
		defer stop()
	}
	truth, err := Run(ctx, s.Options)
	if err != nil {
		return err
	}
	if s.truth {
		return json.NewEncoder(stdout).Encode(truth)
	}
	return nil
}

// waitForLine returns after a line or the end of r.
func waitForLine(r io.Reader) {
	var b [1]byte
	for b[0] != '\n' {
		if _, err := r.Read(b[:]); err != nil {
			return
		}
	}
}

// untilEnd returns a context that is done at the end of r.
func untilEnd(ctx context.Context, r io.Reader) context.Context {
	ctx, end := context.WithCancel(ctx)
	go func() {
		io.Copy(io.Discard, r)
		end()
	}()
	return ctx
}

func startProfile(path string) (stop func(), err error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("create CPU profile: %w", err)
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		f.Close()
		return nil, fmt.Errorf("start CPU profile: %w", err)
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}
