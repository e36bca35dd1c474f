package taker

import (
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
)

// kernelCost is what the kernel's part of a stack costs a sample, more than without it (BenchmarkSample of package
// perfevent, BenchmarkProgram of package bpf, AMD EPYC, Linux 6.18). Samples of user mode do not pay it.
const kernelCost = 3 * time.Microsecond

// callPrefix begins the functions that system calls on x86 lead to (arch/x86/include/asm/syscall_wrapper.h).
const callPrefix = "__x64_sys_"

// entries are the functions between the entry of the kernel and that of a system call: their time is the call's
// (arch/x86/entry, Linux 5.15 to 6.18).
var entries = map[string]bool{
	"entry_SYSCALL_64": true, "entry_SYSCALL_64_after_hwframe": true, "do_syscall_64": true, "do_syscall_x64": true, "x64_sys_call": true,
}

// inKernel appends the kernel's part of a stack: its functions, if they were asked for, and outermost the system
// call, which the engine may know.
func (t *Taker) inKernel(m *process.Moment, frames []ccmap.Frame) []ccmap.Frame {
	for i, pc := range m.KernelChain {
		if t.kernelNames == nil {
			break
		}
		if i > 0 {
			pc-- // in the call
		}
		name, ok := t.kernelNames(pc)
		if !ok || entries[name] {
			continue
		}
		if call, is := strings.CutPrefix(name, callPrefix); is && call == m.Syscall {
			continue
		}
		frames = append(frames, t.kernelFrame(name))
	}
	return append(frames, t.kernelFrame(m.Syscall))
}

func (t *Taker) kernelFrame(name string) ccmap.Frame {
	return ccmap.Frame{Method: t.Sink.Names.Intern(ccmap.Method{Name: ccmap.KernelName, Signature: name}), Offset: ccmap.NoOffset}
}
