package perfevent

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Timer samples one thread on one CPU, each time that the thread has run for a period.
// It keeps the periods itself: the kernel, asked for PERF_SAMPLE_PERIOD, goes on
// telling the first period after a change (hw.last_period of a cpu-clock event; Linux
// 6.18).
//
//	begin     draw a period p; the first period is a random part of it
//	first     its sample stands for p; from now on the period is p
//	redraw    after some samples another period is drawn, right after one of them
//
// So a thread that runs for half an interval on a CPU is sampled every other time,
// and not missed every time. A change of the interval is a beginning, too: on
// average, the first sample makes up for the discarded time. A redraw discards the
// CPU time since the sample before it, so the next sample stands for that time as
// well. The event's own count tells how much it is.
//
// The periods of the last few changes are kept for samples that wait in a ring
// meanwhile.
type Timer struct {
	fd      int        // -1 where the CPU was offline
	counted int64      // the event's count at the last sample that was weighed, ns
	now     periods    // since the last of before ended
	before  [4]periods // oldest first
}

// Form is the form of samples that the kernel has agreed to.
type Form struct {
	UserOnly bool   // no samples in the kernel
	Kernel   bool   // call chains have the kernel's part
	NoLost   bool   // the kernel does not count lost samples by event (before Linux 6.0)
	Dump     uint32 // bytes of stack in a sample
}

// Bytes of stack in a sample: at first and, where stacks turn out to be deeper,
// at most. A record has no room for more.
const (
	FirstDump   = 4 << 10
	LongestDump = 65528
)

// LeastInterval is the shortest interval, however fast the kernel would sample: the
// kernel does not protect the target, which pays 18 to 29 µs for a sample.
const LeastInterval = 100 * time.Microsecond

// ShortestInterval is the shortest interval that the kernel permits, and not less than
// LeastInterval.
func ShortestInterval() time.Duration {
	rate, err := Sysctl("perf_event_max_sample_rate")
	if err != nil || rate <= 0 {
		return LeastInterval
	}
	return max(LeastInterval, time.Second/time.Duration(rate))
}

const sampleFields = unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME |
	unix.PERF_SAMPLE_CPU | unix.PERF_SAMPLE_READ | unix.PERF_SAMPLE_CALLCHAIN |
	unix.PERF_SAMPLE_REGS_USER | unix.PERF_SAMPLE_STACK_USER

// attr describes the event.
//
// The period is a number of nanoseconds and never a frequency: the kernel turns
// a frequency into a period when it opens the event, and a later
// PERF_EVENT_IOC_PERIOD takes nanoseconds all the same (Linux 6.18).
func (f Form) attr(period time.Duration) *unix.PerfEventAttr {
	a := &unix.PerfEventAttr{
		Type:              unix.PERF_TYPE_SOFTWARE,
		Size:              attrSize,
		Config:            unix.PERF_COUNT_SW_CPU_CLOCK,
		Sample:            uint64(period),
		Sample_type:       sampleFields,
		Read_format:       unix.PERF_FORMAT_LOST,
		Sample_regs_user:  sampleRegisters,
		Sample_stack_user: f.Dump,
		Clockid:           unix.CLOCK_MONOTONIC,
		Bits: unix.PerfBitExcludeHv | unix.PerfBitSampleIDAll |
			unix.PerfBitUseClockID | unix.PerfBitTask | unix.PerfBitComm | unix.PerfBitCommExec | unix.PerfBitMmap,
	}
	if !f.Kernel {
		a.Bits |= unix.PerfBitExcludeCallchainKernel
	}
	if f.UserOnly {
		a.Bits |= unix.PerfBitExcludeKernel
	}
	if f.NoLost {
		a.Read_format = 0
	}
	return a
}

// Try asks the kernel whether it permits timers of this form on a thread.
func (f Form) Try(tid int, interval time.Duration) error {
	fd, err := open(f.attr(interval), tid, -1)
	if err != nil {
		return err
	}
	unix.Close(fd)
	return nil
}

// Offline stands for the timer of a CPU that is offline.
func Offline() Timer { return Timer{fd: -1} }

// OpenTimer opens a timer, which begins with the interval at once. Its first sample
// is lost unless [Timer.SendTo] is called before.
func OpenTimer(form Form, interval time.Duration, tid, cpu int) (Timer, error) {
	t := Timer{now: periods{each: interval}}
	t.follow(beginning(interval), Monotonic())
	var err error
	t.fd, err = open(form.attr(t.now.each), tid, cpu)
	return t, err
}

// IsOpen reports whether the timer has an event.
func (t *Timer) IsOpen() bool { return t.fd >= 0 }

// SendTo makes a ring receive the samples. A second call takes 5 to 10 ms, because it
// waits for a grace period of RCU (ring_buffer_attach, Linux 6.18).
func (t *Timer) SendTo(r *Ring) error {
	if err := unix.IoctlSetInt(t.fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
		return fmt.Errorf("send samples to the ring of CPU %d: %w", r.CPU, err)
	}
	return nil
}

// Restart begins anew with an interval.
func (t *Timer) Restart(interval time.Duration) error {
	p := beginning(interval)
	if err := t.setPeriod(p.each); err != nil {
		return err
	}
	t.follow(p, Monotonic())
	return nil
}

// Replace takes over the event of a fresh timer. Samples of the old event that still
// wait in a ring keep their weights. The caller stops the old event before it opens the fresh one, and closes it.
func (t *Timer) Replace(fresh Timer) {
	t.fd = fresh.fd
	t.follow(fresh.now, fresh.before[len(fresh.before)-1].until)
}

// Weigh returns the CPU time that a sample stands for, given the time of the sample and the
// event's count then, ns. Now and then it draws another period around the
// interval. That restarts the period, so call Weigh right after the sample. The weight
// is right even with an error.
func (t *Timer) Weigh(at, count int64, interval time.Duration) (time.Duration, error) {
	weight, next := t.weigh(at, count, func() periods { return drawn(interval) })
	if next.each == 0 {
		return weight, nil
	}
	return weight, t.goOn(next)
}

// Start goes on with sampling after Stop.
func (t *Timer) Start() error {
	if err := unix.IoctlSetInt(t.fd, unix.PERF_EVENT_IOC_ENABLE, 0); err != nil {
		return fmt.Errorf("start perf event: %w", err)
	}
	return nil
}

// Stop ends sampling. The event stays open.
func (t *Timer) Stop() {
	if t.fd >= 0 {
		unix.IoctlSetInt(t.fd, unix.PERF_EVENT_IOC_DISABLE, 0)
	}
}

// Lost returns how many of the samples found their ring full; 0 where the kernel does not count them
// by event, see [Form].
func (t *Timer) Lost() uint64 {
	if t.fd < 0 {
		return 0
	}
	_, lost, err := readCount(t.fd)
	if err != nil {
		return 0
	}
	return lost
}

// Close closes the event and returns how many of its samples found their ring full.
func (t *Timer) Close() uint64 {
	lost := t.Lost()
	closeEvent(t.fd)
	t.fd = -1
	return lost
}

// setPeriod changes the period. The kernel starts a new period at once and forgets
// the part of the old one that had run.
func (t *Timer) setPeriod(period time.Duration) error { return setPeriod(t.fd, period) }

func setPeriod(fd int, period time.Duration) error {
	ns := uint64(period)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.PERF_EVENT_IOC_PERIOD, uintptr(unsafe.Pointer(&ns)))
	if errno != 0 {
		return fmt.Errorf("set period of perf event: %w", errno)
	}
	return nil
}

// weigh returns the weight of a sample, and the periods that the event needs now, all 0 if
// it needs no others. Other periods come from draw.
func (t *Timer) weigh(at, count int64, draw func() periods) (weight time.Duration, next periods) {
	p := &t.now
	for i := range t.before {
		if at < t.before[i].until {
			p = &t.before[i]
			break
		}
	}
	first := p.first
	weight = p.weigh(t.counted)
	t.counted = count
	switch {
	case p != &t.now:
		return weight, periods{}
	case first != 0:
		return weight, periods{each: first, left: p.left}
	case p.left <= 0 && at-t.before[len(t.before)-1].until > int64(leastDraw):
		return weight, draw()
	}
	return weight, periods{}
}

// follow notes that other periods began at a time.
func (t *Timer) follow(p periods, at int64) {
	copy(t.before[:], t.before[1:])
	t.now.until = at
	t.before[len(t.before)-1], t.now = t.now, p
}

// goOn restarts the event with other periods after a sample.
func (t *Timer) goOn(p periods) error {
	if err := t.setPeriod(p.each); err != nil {
		return err
	}
	at := Monotonic()
	count, _, err := readCount(t.fd)
	if err == nil {
		p = p.after(t.now, int64(count))
	}
	t.follow(p, at)
	return err
}

// periods are the periods between two changes, and the time that samples stand for.
type periods struct {
	each  time.Duration
	first time.Duration // weight of the first sample, and the period after it; 0 once it was seen
	cut   time.Duration // the period before, which was discarded in its course; 0 once it is accounted for
	from  int64         // the event's count when they began, ns; of use with cut
	left  int           // samples until another period is drawn
	until int64         // when they were changed, CLOCK_MONOTONIC, ns
}

// weigh returns the weight of the next sample. counted is the event's count at the
// sample before it.
func (p *periods) weigh(counted int64) time.Duration {
	weight := p.each
	switch {
	case p.first != 0:
		weight = p.first
	case p.cut != 0:
		weight += p.discarded(counted)
	}
	p.first, p.cut = 0, 0
	p.left--
	return weight
}

// discarded returns the CPU time that these periods have cut off. The samples of
// whole periods before may be missing where time in the kernel is not sampled.
func (p *periods) discarded(counted int64) time.Duration {
	return time.Duration(max(p.from-counted, 0)) % p.cut
}

// beginning returns the periods of a timer that begins with an interval.
func beginning(interval time.Duration) periods { return drawn(interval).begun(rand.Float64()) }

// begun turns the periods that follow a sample into periods that begin. part is
// uniform between 0 and 1.
func (p periods) begun(part float64) periods {
	p.first = p.each
	p.each = max(time.Duration(float64(p.each)*part), LeastInterval)
	return p
}

// after notes that the periods began in the course of an earlier period, at a count of the
// event.
func (p periods) after(before periods, count int64) periods {
	p.cut, p.from = before.each, count
	return p
}

// Periods are drawn anew every redrawAfter samples, but at most once in
// leastDraw, so that sampling does not run in lockstep with periodic work of the
// target or of other threads.
//
// A period is some 5 to 30 % longer or shorter than the interval. The wider the
// spread, the fewer periods stay in step with any given work, and the variance of a
// share is at most about 1/(2 × spread) times the binomial. Periods next to the
// interval are left out because work repeats in round times, as intervals do.
const (
	MostSpread  = 0.30 // part of the interval
	leastSpread = 0.05
	redrawAfter = 16
	leastDraw   = 100 * time.Millisecond
)

// drawn returns periods that follow a sample.
func drawn(interval time.Duration) periods {
	return periods{each: Drawn(interval), left: redrawAfter}
}

// Drawn returns a period near the interval, by chance.
func Drawn(interval time.Duration) time.Duration { return period(interval, rand.Float64()) }

// period returns the period for a number that is uniform between 0 and 1.
func period(interval time.Duration, number float64) time.Duration {
	spread := 2*number - 1
	spread = math.Copysign(leastSpread+(MostSpread-leastSpread)*math.Abs(spread), spread)
	return max(time.Duration(float64(interval)*(1+spread)), LeastInterval)
}
