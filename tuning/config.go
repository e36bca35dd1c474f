package tuning

import (
	"cmp"
	"fmt"
	"time"
)

// Config says how to tune. A field that is zero stands for its default. The zero
// Config is the paper's rule with the default budgets.
type Config struct {
	Initial time.Duration // first interval; default 10 ms, moved between Min and Max
	Min     time.Duration // shortest interval, > 0; default 100 µs, or a shorter Initial or Max
	Max     time.Duration // longest interval, the floor of the sampling rate, ≤ 1 h; default 100 ms, or a longer Initial or Min

	Low    float64 // with a lower rate of repetitions the interval is too long, 0 < Low < High; default 0.01
	High   float64 // with a higher rate of repetitions the interval is too short, Low < High < 1; default 0.15
	Window int     // samples between two looks, > 0; default 1,000

	// MaxOverhead bounds the part of the target's CPU time that sampling costs;
	// default 0.01. Negative: no limit.
	MaxOverhead float64
	// MaxDaemonCPU bounds the CPU time of the daemon, in cores; default 0.1. Negative:
	// no limit.
	MaxDaemonCPU float64
	// SampleCost is the cost of one sample to the target, ≥ 0, until an observation has
	// measured it. The default is 20 µs, as measured for perf events that unwind Go
	// stacks (18 to 29 µs).
	SampleCost time.Duration

	// Settle is the least percentage that makes the profile count as settled, ≤ 100;
	// default 98. The interval then becomes longer, by a factor of 4 at most and up to
	// Max. Negative: never.
	Settle float64

	// Off turns off repetitions and slowdown. The interval stays at Initial, and is
	// longer only while that exceeds a budget. To fix the interval, make both budgets
	// negative, too.
	Off bool
}

const (
	defaultInitial      = 10 * time.Millisecond
	defaultMin          = 100 * time.Microsecond
	defaultMax          = 100 * time.Millisecond
	defaultLow          = 0.01
	defaultHigh         = 0.15
	defaultWindow       = 1000
	defaultMaxOverhead  = 0.01
	defaultMaxDaemonCPU = 0.1
	defaultSampleCost   = 20 * time.Microsecond
	defaultSettle       = 98

	maxInterval = time.Hour // keeps all arithmetic on intervals far from overflow
)

// complete returns c with defaults for its zero fields, or an error.
func (c Config) complete() (Config, error) {
	c.Low = cmp.Or(c.Low, defaultLow)
	c.High = cmp.Or(c.High, defaultHigh)
	c.Window = cmp.Or(c.Window, defaultWindow)
	c.MaxOverhead = cmp.Or(c.MaxOverhead, defaultMaxOverhead)
	c.MaxDaemonCPU = cmp.Or(c.MaxDaemonCPU, defaultMaxDaemonCPU)
	c.SampleCost = cmp.Or(c.SampleCost, defaultSampleCost)
	c.Settle = cmp.Or(c.Settle, defaultSettle)
	c.completeIntervals()
	return c, c.check()
}

func (c *Config) completeIntervals() {
	if c.Min == 0 {
		c.Min = defaultMin
		for _, d := range []time.Duration{c.Initial, c.Max} {
			if d > 0 {
				c.Min = min(c.Min, d)
			}
		}
	}
	c.Max = cmp.Or(c.Max, max(defaultMax, c.Initial, c.Min))
	c.Initial = cmp.Or(c.Initial, min(max(defaultInitial, c.Min), c.Max))
}

func (c Config) check() error {
	switch {
	case c.Max > maxInterval:
		return fmt.Errorf("tuning: longest interval %v is over %v", c.Max, maxInterval)
	case c.Min < 0 || c.Min > c.Max:
		return fmt.Errorf("tuning: shortest interval %v is not between 0 and the longest, %v", c.Min, c.Max)
	case c.Initial < c.Min || c.Initial > c.Max:
		return fmt.Errorf("tuning: initial interval %v is not between the shortest, %v, and the longest, %v", c.Initial, c.Min, c.Max)
	case !(0 < c.Low && c.Low < c.High && c.High < 1):
		return fmt.Errorf("tuning: thresholds %v and %v are not in the order 0 < low < high < 1", c.Low, c.High)
	case c.Window < 0:
		return fmt.Errorf("tuning: window of %d samples is negative", c.Window)
	case c.SampleCost < 0:
		return fmt.Errorf("tuning: cost of a sample, %v, is negative", c.SampleCost)
	case c.MaxOverhead != c.MaxOverhead || c.MaxDaemonCPU != c.MaxDaemonCPU:
		return fmt.Errorf("tuning: budget is not a number")
	case !(c.Settle <= 100):
		return fmt.Errorf("tuning: settled at %v is over 100 percent", c.Settle)
	}
	return nil
}

// clamp moves d between the shortest and the longest interval.
func (c Config) clamp(d time.Duration) time.Duration { return min(max(d, c.Min), c.Max) }

// plenty returns the number of known samples that end a doubt.
func (c Config) plenty() int { return max(2*c.Window, plentyKnown) }

// middle returns the rate of repetitions that a change of the interval aims at.
func (c Config) middle() float64 { return (c.Low + c.High) / 2 }
