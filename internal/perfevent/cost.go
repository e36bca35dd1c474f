package perfevent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Costs are the prices of sampling, in CPU time of the target.
type Costs struct {
	Sample    time.Duration // of one sample, with its interrupt
	Interrupt time.Duration // of an interrupt that takes no sample
	Switch    time.Duration // of a context switch of a thread that has timers
	Watch     time.Duration // of a context switch of a thread, for each watchpoint or breakpoint on it
	Arm       time.Duration // of setting a watchpoint, for each CPU that this interrupts
	Trap      time.Duration // of a write to a watched word
	Call      time.Duration // of a call that a breakpoint catches; setting a breakpoint costs as much
}

// The usual costs are the costs in a virtual machine (AMD EPYC, Linux 6.18), where an access
// to a timer or a debug register leaves the guest. They stand for costs that cannot be
// measured.
var (
	usualCosts = Costs{
		Sample: 45 * time.Microsecond, Switch: 2500 * time.Nanosecond, Watch: 1400 * time.Nanosecond,
		Arm: 12 * time.Microsecond, Trap: 12 * time.Microsecond, Call: 16 * time.Microsecond,
	}
	usualCPUCosts = Costs{
		Sample: 32 * time.Microsecond, Interrupt: 27 * time.Microsecond, Watch: usualCosts.Watch,
		Arm: usualCosts.Arm, Trap: usualCosts.Trap, Call: usualCosts.Call,
	}
)

const (
	costTurns    = 16                     // of rounds without and with events
	costRounds   = 2                      // in each turn
	costTime     = 50 * time.Millisecond  // of each measurement: no turn begins later
	costInterval = 200 * time.Microsecond // of a timer whose samples are measured
)

// ThreadCosts returns the costs of timers and watchpoints of threads on this machine. The
// first call measures them, in some 30 ms of CPU time: two threads of this process hand a
// turn to each other on one CPU, without and with events, and one of them is sampled. The
// CPU time of the threads tells the difference, so other work on the CPU matters little.
// A cost that cannot be measured is the usual one, and the error says why.
var ThreadCosts = sync.OnceValues(func() (Costs, error) {
	c := usualCosts
	p, err := newPair()
	if err != nil {
		return c, fmt.Errorf("measure the cost of sampling: %w", err)
	}
	defer p.close()
	form := Form{UserOnly: true, Dump: FirstDump}
	if err := form.Try(p.threads[0].tid, costInterval); errors.Is(err, unix.EINVAL) {
		form.NoLost = true
	}
	err = errors.Join(
		p.priceSwitch(&c.Switch, func() (func(), error) { return p.openTimers(form) }),
		p.priceSwitch(&c.Watch, p.openWatchpoints),
		p.priceSample(&c.Sample, form),
		p.priceTraps(&c),
	)
	return c, err
})

// UsualThreadCosts are [ThreadCosts] of a usual machine, for a caller that cannot wait.
func UsualThreadCosts() Costs { return usualCosts }

// CPUCosts returns the costs of timers of CPUs that run a BPF program, of watchpoints and of
// caught calls, on this machine. It measures them in some 60 ms: one thread of this process
// looks at the clock all the time, and each interrupt leaves a gap. target makes the program
// take samples of this process, until end is called.
func CPUCosts(program int, target func() (end func(), err error)) (Costs, error) {
	c := usualCPUCosts
	p, err := newPair()
	if err != nil {
		return c, fmt.Errorf("measure the cost of sampling: %w", err)
	}
	defer p.close()
	err = errors.Join(
		p.priceInterrupts(&c, program, target),
		p.priceSwitch(&c.Watch, p.openWatchpoints),
		p.priceTraps(&c),
	)
	return c, err
}

// priceInterrupts sets the costs of interrupts without and with a sample.
func (p *pair) priceInterrupts(c *Costs, program int, target func() (end func(), err error)) error {
	clock, err := OpenCPUClock(p.cpu, costInterval, program)
	if err != nil {
		return fmt.Errorf("measure the cost of an interrupt: %w", err)
	}
	defer clock.Close()
	interrupt := p.interruptTime()
	end, err := target()
	if err != nil {
		return fmt.Errorf("measure the cost of a sample: %w", err)
	}
	defer end()
	sample := p.interruptTime()
	if interrupt == 0 || sample == 0 {
		return errors.New("measure the cost of an interrupt: other work takes the CPU")
	}
	c.Interrupt, c.Sample = interrupt, max(sample, interrupt)
	return nil
}

// priceSwitch sets a cost to the time that events add to a context switch. The cost stays
// if the events cannot be opened.
func (p *pair) priceSwitch(cost *time.Duration, open func() (closeAll func(), err error)) error {
	without, with, err := compare(time.Now().Add(costTime), p.switchTime, open)
	if err == nil {
		*cost = max(with-without, 0)
	}
	return err
}

// compare returns the medians of rounds without events and with them. They take turns.
func compare(deadline time.Time, round func() time.Duration, open func() (closeAll func(), err error)) (without, with time.Duration, err error) {
	var all, none []time.Duration
	for turn := 0; turn == 0 || turn < costTurns && time.Now().Before(deadline); turn++ {
		none = append(none, rounds(round)...)
		closeAll, err := open()
		if err != nil {
			return 0, 0, fmt.Errorf("measure the cost of sampling: %w", err)
		}
		all = append(all, rounds(round)...)
		closeAll()
	}
	return median(none), median(all), nil
}

func rounds(round func() time.Duration) []time.Duration {
	all := make([]time.Duration, costRounds)
	for i := range all {
		all[i] = round()
	}
	return all
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// openTimers opens a timer of each thread.
func (p *pair) openTimers(form Form) (closeAll func(), err error) {
	var timers []Timer
	closeAll = func() {
		for i := range timers {
			timers[i].Close()
		}
	}
	for i := range p.threads {
		t, err := OpenTimer(form, time.Second, p.threads[i].tid, p.cpu)
		if err != nil {
			closeAll()
			return nil, err
		}
		timers = append(timers, t)
	}
	return closeAll, nil
}

// openWatchpoints opens a watchpoint on each thread, where nothing is written.
func (p *pair) openWatchpoints() (closeAll func(), err error) {
	w, err := OpenWatchpoint(uint32(p.threads[0].tid))
	if err != nil {
		return nil, err
	}
	if err := w.ArmAt(uint32(p.threads[1].tid)); err != nil {
		w.Close()
		return nil, err
	}
	return w.Close, nil
}

// priceSample sets the cost of a sample. Samples go into a ring that wakes a reader for
// each, because a wake-up is the dearer half of a sample.
func (p *pair) priceSample(cost *time.Duration, form Form) error {
	ring, err := OpenRing(p.cpu, minRingBytes, 1)
	if err != nil {
		return fmt.Errorf("measure the cost of a sample: %w", err)
	}
	defer ring.Close()
	stop, err := empty(ring)
	if err != nil {
		return fmt.Errorf("measure the cost of a sample: %w", err)
	}
	defer stop()
	without, with, err := compare(time.Now().Add(costTime), p.workTime, func() (func(), error) {
		t, err := OpenTimer(form, costInterval, p.threads[0].tid, p.cpu)
		if err != nil {
			return nil, err
		}
		if err := errors.Join(t.setPeriod(costInterval), t.SendTo(ring)); err != nil {
			t.Close()
			return nil, err
		}
		return func() { t.Close() }, nil
	})
	if err != nil {
		return err
	}
	samples := float64(with) / float64(costInterval)
	*cost = max(time.Duration(float64(with-without)/samples), 0)
	return nil
}

// empty drops the records of a ring, as soon as they come, until stop is called.
func empty(r *Ring) (stop func(), err error) {
	pidfd, err := unix.PidfdOpen(os.Getpid(), 0)
	if err != nil {
		return nil, fmt.Errorf("open pidfd: %w", err)
	}
	w, err := NewWaiter(pidfd)
	if err != nil {
		unix.Close(pidfd)
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer w.RingAfter(ctx)()
		for failed := w.Add(r, true); failed == nil && ctx.Err() == nil; _, failed = w.Wait(time.Second) {
			r.Refresh()
			for ok, _ := r.Peek(); ok; ok, _ = r.Peek() {
				r.Advance()
			}
			r.Release()
		}
	}()
	return func() {
		cancel()
		<-ended
		w.Close()
		unix.Close(pidfd)
	}, nil
}
