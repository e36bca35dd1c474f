package perfevent

import (
	"errors"
	"runtime"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrSilent is the error of setting a hardware breakpoint where it would never fire. Some hypervisors accept what the
// kernel writes to debug registers and do nothing with it (PVM, Linux 6.18): a count of 0 would be a lie.
var ErrSilent = errors.New("hardware breakpoints never fire on this machine: its hypervisor has no debug registers for it")

// heard is what is known of the machine: whether hardware breakpoints fire.
var heard atomic.Int32

const (
	heardNothing = iota // it could not be tried yet
	heardFire
	heardSilence
)

// Silent returns [ErrSilent] where hardware breakpoints never fire, and nil where they do or where this process may not
// try. It tries once, in some 0.1 ms.
func Silent() error {
	is := heard.Load()
	if is == heardNothing {
		is = listen()
		heard.Store(is)
	}
	if is == heardSilence {
		return ErrSilent
	}
	return nil
}

// heardWord is the word of listen. It is no variable of a function: stacks move.
var heardWord atomic.Uint64

// listen writes to a watched word of its own.
func listen() int32 {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	attr := watchAttr(uint64(uintptr(unsafe.Pointer(&heardWord))))
	attr.Bits &^= unix.PerfBitDisabled
	fd, err := perfEventOpen(attr, 0, -1)
	if err != nil {
		return heardNothing
	}
	defer closeEvent(fd)
	heardWord.Add(1)
	switch hits, _, err := readCount(fd); {
	case err != nil:
		return heardNothing
	case hits == 0:
		return heardSilence
	}
	return heardFire
}
