package perfevent

import (
	"errors"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pair is two threads of this process on one CPU, which measure the costs of events.
type pair struct {
	cpu     int
	turn    atomic.Uint32 // index of the thread that goes on; a futex
	watched atomic.Uint64 // is watched while the cost of a trap is measured
	threads [2]pinned
}

// pinned is a thread that does one job after the other.
type pinned struct {
	tid  int
	jobs chan func() // closed at the end
	done chan error  // has a result of the start and of each job
}

const (
	handOvers   = 10               // of the turn, by each thread in a round
	turnTimeout = time.Millisecond // after which a thread looks again whether it is its turn
	workSteps   = 1 << 20          // some 0.5 ms
	gapRounds   = 8
	gapsTime    = 2500 * time.Microsecond // of a round
	leastGaps   = 6                       // of a round that counts
	leastGap    = 500 * time.Nanosecond   // of an interrupt: looking at the clock takes 50 ns
)

// newPair starts the threads on the CPU that runs the caller.
func newPair() (*pair, error) {
	var cpu uint32
	unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0) // does not fail (getcpu(2))
	p := &pair{cpu: int(cpu)}
	var failed error
	for i := range p.threads {
		t := &p.threads[i]
		t.jobs, t.done = make(chan func()), make(chan error)
		go t.run(p.cpu)
		failed = errors.Join(failed, <-t.done)
	}
	if failed != nil {
		p.close()
		return nil, failed
	}
	return p, nil
}

// run is the goroutine of a thread. The runtime gets the thread back with the CPUs that it
// had: a further thread reserves 72 MB of addresses in a program with cgo (glibc 2.36).
func (t *pinned) run(cpu int) {
	runtime.LockOSThread()
	t.tid = unix.Gettid()
	var one, all unix.CPUSet
	one.Set(cpu)
	t.done <- errors.Join(unix.SchedGetaffinity(0, &all), unix.SchedSetaffinity(0, &one))
	for job := range t.jobs {
		job()
		t.done <- nil
	}
	if unix.SchedSetaffinity(0, &all) == nil {
		runtime.UnlockOSThread() // else the thread ends with the goroutine
	}
	close(t.done)
}

func (p *pair) close() {
	for i := range p.threads {
		close(p.threads[i].jobs)
		<-p.threads[i].done
	}
}

// do lets the first thread do a job.
func (p *pair) do(job func()) {
	p.threads[0].jobs <- job
	<-p.threads[0].done
}

// switchTime lets the threads hand the turn over, and returns the CPU time of both for a
// context switch.
func (p *pair) switchTime() time.Duration {
	var spent [2]time.Duration
	var switches [2]int64
	for i := range p.threads {
		p.threads[i].jobs <- func() {
			before, began := switchesOfThread(), ThreadTime()
			for range handOvers {
				p.await(uint32(i))
				p.pass(uint32(1 - i))
			}
			spent[i], switches[i] = ThreadTime()-began, switchesOfThread()-before
		}
	}
	for i := range p.threads {
		<-p.threads[i].done
	}
	return (spent[0] + spent[1]) / time.Duration(max(switches[0]+switches[1], 1))
}

// workTime does arithmetic on the first thread, and returns the CPU time of it.
func (p *pair) workTime() (spent time.Duration) {
	p.do(func() {
		began := ThreadTime()
		x := uint32(began)
		for range workSteps {
			x = x*1664525 + 1013904223
		}
		p.turn.Store(x & 1) // the result keeps the loop
		spent = ThreadTime() - began
	})
	return spent
}

// interruptTime returns how long an interrupt takes by a timer that interrupts the first
// thread every costInterval: the least of some rounds, because other work on the machine
// makes an interrupt longer, and never shorter. 0: other work took all rounds.
func (p *pair) interruptTime() (least time.Duration) {
	for range gapRounds {
		if gap := p.gapTime(); gap > 0 && (least == 0 || gap < least) {
			least = gap
		}
	}
	return least
}

// gapTime looks at the clock all the time on the first thread, and returns the median of the
// longest gaps, one for each interrupt. A few gaps are other work on the CPU. 0: the thread
// had the CPU for too few interrupts.
func (p *pair) gapTime() (gap time.Duration) {
	p.do(func() {
		all := make([]time.Duration, 0, 4*gapsTime/costInterval)
		spent, began := ThreadTime(), time.Now()
		for at := time.Duration(0); at < gapsTime && len(all) < cap(all); {
			now := time.Since(began)
			if now-at > leastGap {
				all = append(all, now-at)
			}
			at = now
		}
		if n := int((ThreadTime() - spent) / costInterval); n >= leastGaps {
			gap = medianOfLongest(all, n)
		}
	})
	return gap
}

// medianOfLongest returns the median of the n longest times; 0 without times.
func medianOfLongest(all []time.Duration, n int) time.Duration {
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return median(all[max(len(all)-n, 0):])
}

// await waits for a turn. The timeout lets the runtime stop all threads while the other
// thread has the turn.
func (p *pair) await(turn uint32) {
	timeout := unix.NsecToTimespec(int64(turnTimeout))
	for p.turn.Load() != turn {
		futex(&p.turn, futexWait, 1-turn, &timeout)
	}
}

// pass gives the turn to a thread.
func (p *pair) pass(turn uint32) {
	p.turn.Store(turn)
	futex(&p.turn, futexWake, 1, nil)
}

// Operations of futex(2) with FUTEX_PRIVATE_FLAG (linux/futex.h).
const (
	futexWait = 0 | 128
	futexWake = 1 | 128
)

// futex goes around the Go scheduler, unless the other thread needs the only processor.
func futex(word *atomic.Uint32, op int, value uint32, timeout *unix.Timespec) {
	call := unix.RawSyscall6
	if runtime.GOMAXPROCS(0) == 1 {
		call = unix.Syscall6
	}
	call(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), uintptr(op), uintptr(value), uintptr(unsafe.Pointer(timeout)), 0, 0)
}

// switchesOfThread returns how often the calling thread has left a CPU.
func switchesOfThread() int64 {
	var u unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &u) // does not fail (getrusage(2))
	return u.Nvcsw + u.Nivcsw
}
