package launch

import "golang.org/x/sys/unix"

const (
	userCode64       = 0x33 // code segment of 64-bit programs (arch/x86/include/asm/segment.h, Linux 6.18)
	prctl32          = 172  // of 32-bit programs (syscall_32.tbl)
	systemCallLength = 2    // bytes, of SYSCALL and of INT 0x80
)

// callingPrctl returns the registers at the beginning of a system call, with prctl(PR_SET_PDEATHSIG, 0) in place of
// the program's own call.
func callingPrctl(own unix.PtraceRegs) unix.PtraceRegs {
	if own.Cs == userCode64 {
		own.Orig_rax, own.Rdi, own.Rsi = unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, 0
	} else {
		own.Orig_rax, own.Rbx, own.Rcx = prctl32, unix.PR_SET_PDEATHSIG, 0
	}
	return own
}

// again puts the registers back to before the system call.
func again(own *unix.PtraceRegs) {
	own.Rax = own.Orig_rax
	own.Rip -= systemCallLength
}
