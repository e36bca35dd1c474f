package process

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// NewHostLedger begins to compare the weights of the samples of all processes with the CPU time of the
// machine.
func NewHostLedger() *Ledger { return NewLedger(readHostTimes, false, statTick) }

// readHostTimes reads the CPU time that all CPUs were busy.
func readHostTimes() (CPUTimes, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return CPUTimes{}, fmt.Errorf("read CPU time of the machine: %w", err)
	}
	return parseHostTimes(string(text))
}

// parseHostTimes reads the first line of /proc/stat: user, nice, system, idle, iowait, irq, softirq and
// more, in ticks (proc_stat(5)). The time of guests is in user, and stolen time is no CPU's.
func parseHostTimes(text string) (CPUTimes, error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 8 || fields[0] != "cpu" {
		return CPUTimes{}, fmt.Errorf("read CPU time of the machine: /proc/stat begins with %q", line)
	}
	var ticks [7]time.Duration
	for i := range ticks {
		n, err := strconv.ParseUint(fields[1+i], 10, 48)
		if err != nil {
			return CPUTimes{}, fmt.Errorf("read CPU time of the machine: %w", err)
		}
		ticks[i] = time.Duration(n)
	}
	user, kernel := (ticks[0]+ticks[1])*statTick, (ticks[2]+ticks[5]+ticks[6])*statTick
	return CPUTimes{All: user + kernel, User: user, Kernel: kernel}, nil
}
