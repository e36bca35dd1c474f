package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime/pprof"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
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
	f.DurationVar(&s.Rest, "rest", 0, "how long each client, goroutine or thread rests before a request or round")
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

// Command is the hidden command of ccmapd that runs [Main].
const Command = "demo-workload"

// Process is a workload in a process of its own. It belongs to one goroutine.
type Process struct{ cmd *exec.Cmd }

// Start starts this executable again by [Command], and returns when the workload is
// ready. The workload ends with its standard input, so it outlives no parent that is
// killed.
func Start(stderr io.Writer) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	cmd := exec.Command(self, Command, "-attended")
	cmd.Stderr = stderr
	_, err = cmd.StdinPipe() // stays open as long as this process lives
	stdout, err2 := cmd.StdoutPipe()
	if err = errors.Join(err, err2); err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return nil, fmt.Errorf("start workload: %w", err)
	}
	p := &Process{cmd}
	if _, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		p.Stop()
		return nil, fmt.Errorf("start workload: %w", err)
	}
	return p, nil
}

// PID returns the number of the process.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Stop ends the workload, and waits for its end.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(unix.SIGTERM) // fails only if it has ended
	_ = p.cmd.Wait()                       // how it ends is of no interest
}
