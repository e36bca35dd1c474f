package tuning

import (
	"fmt"
	"strconv"
	"time"
)

func repetitionReason(r rate, v verdict, c Config) string {
	sign, threshold := ">", c.High
	if v == under {
		sign, threshold = "<", c.Low
	}
	return fmt.Sprintf("repetitions %s of %d known %s %s", percent(r.value()), r.known, sign, plainPercent(threshold))
}

func budgetReason(l load, overhead bool, c Config) string {
	if overhead {
		return fmt.Sprintf("overhead %s of the target's CPU > %s", percent(l.overhead), plainPercent(c.MaxOverhead))
	}
	return fmt.Sprintf("daemon %s of a core > %s", percent(l.daemon), plainPercent(c.MaxDaemonCPU))
}

// affordableReason takes the load as it will be.
func affordableReason(l load) string {
	return fmt.Sprintf("overhead %s of the target's CPU and daemon %s of a core affordable again", percent(l.overhead), percent(l.daemon))
}

// settledReason takes percentages.
func settledReason(settled, wanted float64) string {
	return fmt.Sprintf("settled to %s ≥ %s", percent(settled/100), plainPercent(wanted/100))
}

const driftReason = "drift: the program does something else than before"

// loadReason takes loads in cores.
func loadReason(before, now float64) string {
	return fmt.Sprintf("load %.2f → %.2f cores", before, now)
}

func intervalReason(from, to time.Duration) string {
	return fmt.Sprintf(": interval %v → %v", from, to)
}

// percent formats a measured part with one decimal, for example "87.4 %".
func percent(p float64) string { return strconv.FormatFloat(100*p, 'f', 1, 64) + " %" }

// plainPercent formats a configured part as it was given, for example "15 %".
func plainPercent(p float64) string { return strconv.FormatFloat(100*p, 'g', 4, 64) + " %" }

// round returns an interval to three significant digits, which is as much as is
// known of it.
func round(d time.Duration) time.Duration {
	unit := time.Duration(1)
	for d/unit >= 1000 {
		unit *= 10
	}
	return d.Round(unit)
}
