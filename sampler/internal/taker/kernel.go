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
