package receivers

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main is the program: it takes the arguments behind the program's name and
// returns the exit code. It prints "ready" when it begins and its truth, as JSON,
// when it ends: by its flags, SIGINT or SIGTERM. SIGUSR1 begins its second phase.
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
