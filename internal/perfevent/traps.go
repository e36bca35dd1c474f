package perfevent

import (
	"errors"
	"fmt"
	"reflect"
	"runtime"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// costTraps is how many watchpoints, writes and calls are measured at most.
	costTraps = 16
	// costLost is a time that shows other work on the CPU. In a busy virtual machine the dearest
	// trap takes a tenth of it.
	costLost = time.Millisecond
)

// priceTraps sets the costs of watchpoints and breakpoints that do not depend on switches:
// of setting a watchpoint, of a write to a watched word, and of a call that is caught.
func (p *pair) priceTraps(c *Costs) error {
	w, err := OpenWatchpoint(uint32(p.threads[0].tid))
	if err != nil {
		return fmt.Errorf("measure the cost of a watchpoint: %w", err)
	}
	defer w.Close()
	for _, k := range []struct {
		cost *time.Duration
		time func(*Watchpoint) ([]time.Duration, error)
	}{{&c.Arm, p.armTime}, {&c.Trap, p.trapTime}, {&c.Call, p.callTime}} {
		all, err := k.time(w)
		if err != nil {
			return fmt.Errorf("measure the cost of a watchpoint: %w", err)
		}
		*k.cost = undisturbed(all, *k.cost)
	}
	return nil
}

// armTime returns how long the first thread loses its CPU while a thread on another CPU sets
// a watchpoint on it, several times. It is 0 where there is no other CPU, because then nothing
// is interrupted.
func (p *pair) armTime(w *Watchpoint) (all []time.Duration, err error) {
	all = []time.Duration{0}
	var l looker
	p.threads[0].jobs <- l.run
	err = elsewhere(p.cpu, func() error {
		all, err = repeated(func() (time.Duration, error) {
			before := l.sync()
			if err := w.Arm(w.addr, []uint32{uint32(p.threads[0].tid)}); err != nil {
				return 0, err
			}
			return l.sync() - before, nil
		})
		return err
	})
	l.end.Store(true)
	<-p.threads[0].done
	return all, err
}

// looker looks at the clock all the time, and adds up the gaps.
type looker struct {
	looks, lost atomic.Int64 // lost in ns
	end         atomic.Bool
}

func (l *looker) run() {
	began := time.Now()
	for at := time.Duration(0); at < 2*costTime && !l.end.Load(); l.looks.Add(1) {
		now := time.Since(began)
		if now-at > leastGap {
			l.lost.Add(int64(now - at))
		}
		at = now
	}
}

// sync waits until the looker has looked twice, and returns the gaps so far.
func (l *looker) sync() time.Duration {
	before, began := l.looks.Load(), time.Now()
	for l.looks.Load() < before+2 && time.Since(began) < costTime {
	}
	return time.Duration(l.lost.Load())
}

// elsewhere calls a function on a thread that may run on all CPUs but one. Without another
// CPU it does nothing.
func elsewhere(cpu int, call func() error) error {
	failed := make(chan error)
	go func() {
		runtime.LockOSThread()
		var all unix.CPUSet
		if err := unix.SchedGetaffinity(0, &all); err != nil {
			failed <- err
			return
		}
		others := all
		if others.Clear(cpu); others.Count() == 0 {
			runtime.UnlockOSThread()
			failed <- nil
			return
		}
		err := unix.SchedSetaffinity(0, &others)
		if err == nil {
			err = call()
		}
		if unix.SchedSetaffinity(0, &all) == nil {
			runtime.UnlockOSThread() // else the thread ends with the goroutine
		}
		failed <- err
	}()
	return <-failed
}

// trapTime returns how long the first thread takes to write a watched word, several times.
func (p *pair) trapTime(w *Watchpoint) (all []time.Duration, err error) {
	addr := uint64(uintptr(unsafe.Pointer(&p.watched)))
	p.do(func() {
		all, err = repeated(func() (time.Duration, error) {
			if err := w.Arm(addr, []uint32{uint32(p.threads[0].tid)}); err != nil {
				return 0, err
			}
			began := time.Now()
			p.watched.Add(1)
			took := time.Since(began)
			if hit, err := w.Dirty(0); !hit {
				return 0, errors.Join(errors.New("a write was not noticed"), err)
			}
			return took, nil
		})
	})
	return all, err
}

// callTime returns how long the first thread takes for a call that is caught, several times.
func (p *pair) callTime(*Watchpoint) (all []time.Duration, err error) {
	const callers = 8 // as in bursts
	b := Breakpoint{PC: uint64(reflect.ValueOf(caught).Pointer()), Register: regAny, Callers: callers}
	p.do(func() {
		var ring *Ring
		if ring, err = b.Set(uint32(p.threads[0].tid), costTraps); err != nil {
			return
		}
		defer ring.Close()
		all, err = repeated(func() (time.Duration, error) {
			began := time.Now()
			caught()
			return time.Since(began), nil
		})
	})
	return all, err
}

// caught is a function whose calls are caught.
//
//go:noinline
func caught() {}

// repeated returns costTraps times, or fewer if they take long.
func repeated(once func() (time.Duration, error)) (all []time.Duration, err error) {
	for began := time.Now(); len(all) == 0 || len(all) < costTraps && time.Since(began) < costTime; {
		took, err := once()
		if err != nil {
			return nil, err
		}
		all = append(all, took)
	}
	return all, nil
}

// undisturbed returns the median of the times without other work on the CPU, and the usual
// cost if there are none.
func undisturbed(all []time.Duration, usual time.Duration) time.Duration {
	all = slices.DeleteFunc(all, func(d time.Duration) bool { return d >= costLost })
	if len(all) == 0 {
		return usual
	}
	return median(all)
}
