package jvmtest

import (
	"errors"
	"runtime"

	"golang.org/x/sys/unix"
)

// Stop stops a thread while look is given its registers.
func Stop(tid uint32, look func(*unix.PtraceRegs)) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.PtraceSeize(int(tid)); err != nil {
		return err
	}
	if err := unix.PtraceInterrupt(int(tid)); err != nil {
		return err
	}
	defer unix.PtraceDetach(int(tid))
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(int(tid), &status, unix.WALL, nil)
		if !errors.Is(err, unix.EINTR) {
			if err != nil {
				return err
			}
			break
		}
	}
	if !status.Stopped() || int(status)>>16 != unix.PTRACE_EVENT_STOP {
		return errors.New("it stopped for another reason")
	}
	var regs unix.PtraceRegs
	if err := unix.PtraceGetRegs(int(tid), &regs); err != nil {
		return err
	}
	look(&regs)
	return nil
}
