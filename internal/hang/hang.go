// Package hang gives up work that waits for another process's memory or file system.
//
// A read of another process's memory waits in the kernel for the page. If that process,
// or a program that works for it, serves the pages (userfaultfd, FUSE), the read may wait
// for ever. Only a signal that kills ends it (handle_userfault and filemap_fault, Linux
// 6.12): no deadline, no context, no closing of a descriptor. Such a thread is lost until
// the other process ends. This package makes sure that nothing else is lost with it.
package hang

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// ErrHung says that a call does not return. All later calls are refused.
var ErrHung = errors.New("it keeps a read waiting, as memory does that userfaultfd or FUSE serves")

// Watch sees whether calls return.
//
//	state    the goroutine of the calls adds to it before and after each; Run
//	         sets abandoned while a call lasts. The goroutine never runs on after that.
//	thread   the goroutine of the calls writes it before each; Run reads it.
//
// A nil Watch watches nothing.
type Watch struct {
	state  atomic.Uint64 // odd: in a call
	thread atomic.Int32  // of the last call

	look func(thread int) glance // nil: asks the kernel; tests have their own
}

const abandoned = 1 << 63

// Call makes a call that may not return. It runs on the calling goroutine, and f must use
// a system call that tells Go's scheduler. It returns ErrHung, without a call, after one
// that did not return.
func (w *Watch) Call(f func() error) error {
	if err := w.Enter(); err != nil {
		return err
	}
	defer w.Leave()
	return f()
}

// Once makes one call that may not return, by a watch of its own. After ErrHung, do not read any
// variable that the call writes.
func Once(ctx context.Context, f func() error) (err error) {
	w := new(Watch)
	if hung := w.Run(ctx, func() { err = w.Call(f) }); hung != nil {
		return hung
	}
	return err
}

// Enter begins a call, see Call.
func (w *Watch) Enter() error {
	if w == nil {
		return nil
	}
	state := w.state.Load()
	if state&abandoned != 0 {
		return ErrHung
	}
	runtime.LockOSThread() // until Leave: the call's thread stays the one to look at
	w.thread.Store(int32(unix.Gettid()))
	w.state.Store(state + 1)
	return nil
}

// Leave ends a call. If Run has given up the call, the goroutine ends here: its data
// belongs to the caller of Run.
func (w *Watch) Leave() {
	if w == nil {
		return
	}
	runtime.UnlockOSThread()
	if state := w.state.Load(); state&abandoned != 0 || !w.state.CompareAndSwap(state, state+1) {
		runtime.Goexit()
	}
}

// hung reports whether a call did not return.
func (w *Watch) hung() bool { return w.state.Load()&abandoned != 0 }

// Times that a call may take. Even a read from a slow disk takes less than a second. A
// call whose thread wants to run waits for a processor on a busy machine, not for memory.
// So does one that waits for the lock of an address space: its holder wants to run. A call
// whose thread has run reads on: other pages than the one that it waited for.
const (
	patience = 2 * time.Second
	hurry    = 400 * time.Millisecond // after the context is done
	busy     = 30 * time.Second       // at most, for lack of a processor, or for many pages
	busyOver = 5 * time.Second        // the same after the context is done
)

// Run runs f in a goroutine of its own, and returns when f does. f makes its calls by the
// watch. If a call does not return, Run gives up f and returns ErrHung: within some
// seconds, or half a second after ctx is done. A call whose thread lacks a processor, or
// reads on, has half a minute, or five seconds after ctx is done. Then f never runs on,
// except its deferred functions if the call still returns. So f must not defer work that
// Run's caller then does. Only one Run at a time may use a watch.
func (w *Watch) Run(ctx context.Context, f func()) error {
	if w.hung() {
		return ErrHung
	}
	done := make(chan struct{})
	go func() {
		f()
		close(done)
	}()
	tick := time.NewTicker(patience)
	defer tick.Stop()
	over, enough := ctx.Done(), busy
	last, since, before := w.state.Load(), time.Now(), glance{}
	for {
		select {
		case <-done:
			return nil
		case <-over:
			over, enough = nil, busyOver
			tick.Reset(hurry)
		case <-tick.C:
			if last&1 == 0 {
				break
			}
			now := w.glance()
			if !(now.goesOn(before) && time.Since(since) < enough) && w.state.CompareAndSwap(last, last|abandoned) {
				return now.hung()
			}
			before = now
		}
		if state := w.state.Load(); state != last {
			last, since = state, time.Now()
			if state&1 != 0 {
				before = w.glance()
			}
		}
	}
}

// glance is what the kernel tells of a thread of this process.
type glance struct {
	lacks bool   // it runs, or wants to, or waits for another thread that does
	waits string // how often it has waited; "": not known
	where string // the function that it waits in; "" and "0": not known
}

// goesOn reports whether a call is not stuck, by a glance before this one.
func (g glance) goesOn(before glance) bool { return g.lacks || g.waits != before.waits }

// hung is ErrHung, with where the call waits.
func (g glance) hung() error {
	if g.where == "" || g.where == "0" {
		return ErrHung
	}
	return fmt.Errorf("%w: the kernel waits in %s", ErrHung, g.where)
}

// glance looks at the thread of the last call.
func (w *Watch) glance() glance {
	look := w.look
	if look == nil {
		look = lookAt
	}
	return look(int(w.thread.Load()))
}

func lookAt(thread int) (g glance) {
	folder := "/proc/self/task/" + strconv.Itoa(thread)
	stat, err := os.ReadFile(folder + "/stat")
	if err != nil {
		return glance{}
	}
	where, _ := os.ReadFile(folder + "/wchan") // a kernel without symbols has "0"
	status, _ := os.ReadFile(folder + "/status")
	return glance{lacks: runnable(stat) || waitsForLock(where), waits: waitsOf(status), where: string(where)}
}

// waitsOf reads from the file status how often a thread has waited (proc_pid_status(5)).
func waitsOf(status []byte) string {
	_, after, _ := bytes.Cut(status, []byte("\nvoluntary_ctxt_switches:\t"))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	return string(line)
}

// runnable reports whether the file stat is of a thread that runs or wants to run (proc_pid_stat(5)).
func runnable(stat []byte) bool {
	_, fields, found := bytes.Cut(stat, []byte(") ")) // after the name, which is Go's own
	return found && bytes.HasPrefix(fields, []byte("R"))
}

// waitsForLock reports whether the file wchan is of a thread that waits for the lock of an address space. It names the
// function that takes the lock (get_wchan leaves out the scheduler and locks): these read memory and maps, and wait
// there for nothing else (Linux 6.18). The kernel drops the lock before it waits for a page of userfaultfd
// (handle_userfault) or of a file (maybe_unlock_mmap_for_io).
func waitsForLock(where []byte) bool {
	return slices.ContainsFunc(takers, func(name string) bool { return bytes.HasPrefix(where, []byte(name)) })
}

var takers = []string{"process_vm_rw", "__access_remote_vm", "lock_next_vma", "m_start"}
