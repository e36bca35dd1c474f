package hotspot

import (
	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/unwind"
)

// Unwind is part of [process.Runtime]. A stack that does not end in its copy is read to its end now.
func (p *Process) Unwind(m *process.Moment, st *process.Stack) {
	p.unwind(m, st)
	if st.Rooted || !st.WantDump || !p.deep.takeMoment(m) {
		return
	}
	for !st.Rooted && st.WantDump {
		longer := p.deep.more()
		if longer == nil {
			break
		}
		p.unwind(longer, st)
	}
	st.WantDump = true // a copy of the moment is better
}

// calls are what was found of a moment beside addresses.
type calls struct {
	java    unwind.Stack // its Java frames
	natives int          // how many of its addresses are C functions
	root    string       // the purpose of its thread; "": a thread of the program
	lost    bool         // functions of C are missing
}

// foundIn returns the calls of a stack, new ones for a stack that another runtime has unwound, or none.
func foundIn(st *process.Stack) *calls {
	if found, ok := st.Found.(*calls); ok {
		return found
	}
	return new(calls)
}

func (p *Process) unwind(m *process.Moment, st *process.Stack) {
	found := foundIn(st)
	*found = calls{java: unwind.Stack{Frames: found.java.Frames[:0], Native: found.java.Native[:0]}}
	*st = process.Stack{PCs: st.PCs[:0], Thread: process.OSThread | uint64(m.TID), Found: found}
	p.native.limitSteps()
	switch {
	case !m.HasRegs:
		st.Rooted = m.Kernel // the thread will not come back, so it has no callers any more
	case p.native.holds(m.Regs.IP):
		p.inNative(m, st)
	default:
		p.java.Unwind(m, &found.java)
		if len(found.java.Frames) == 0 && p.underStub(m, st) {
			break
		}
		p.adoptFrames(st)
	}
	if len(found.java.Frames) > 0 {
		return
	}
	if found.root = purposeOf(p.threadName(m.TID)); found.root != "" && st.Rooted {
		p.cutStart(st)
	}
}

// underStub unwinds a moment in generated code that C has called and that calls nothing, as
// compilers call the code that flushes instruction caches. The code itself is left out.
func (p *Process) underStub(m *process.Moment, st *process.Stack) bool {
	stack := view{m.Regs.SP, m.Stack}
	caller := callerOfLeaf(m.Regs, stack)
	if !p.java.InCode(m.Regs.IP) || !p.native.holds(caller.IP) {
		return false
	}
	f := caller.Frame()
	pcs, _, end := p.native.climb(&f, stack, st.PCs, false)
	if end != endAtRoot {
		return false
	}
	pcs[0]-- // the first address must be exact, and a call is the instruction before
	st.PCs, st.Foreign, st.Rooted = pcs, true, true
	foundIn(st).natives = len(pcs)
	return true
}

// cutStart leaves out the C library's functions that begin a thread of the JVM's own, with symbols or without:
// the thread's purpose stands for them.
func (p *Process) cutStart(st *process.Stack) {
	found := foundIn(st)
	for found.natives > 1 && p.native.begins(st.PCs[found.natives-1]-1) {
		found.natives--
	}
	st.PCs = st.PCs[:found.natives]
}

// inNative unwinds a moment in a library. Where call frame information leads to no root and to
// no Java code, the JVM's own note of the thread may do so.
func (p *Process) inNative(m *process.Moment, st *process.Stack) {
	found := foundIn(st)
	f := m.Regs.Frame()
	stack := view{m.Regs.SP, m.Stack}
	var end ending
	st.PCs, st.Slot, end = p.native.climb(&f, stack, st.PCs, true)
	found.natives, st.Foreign = len(st.PCs), true
	switch end {
	case endAtRoot:
		st.Rooted = true
		return
	case endOfStack:
		st.WantDump = m.Cut
	case endOutside:
		p.java.Unwind(p.callerOf(m, &f, stack), &found.java)
	}
	slot := st.Slot
	if end != endOutside || !found.java.Rooted && found.java.Why != unwind.EndOfCopy {
		found.lost = true
		p.java.Unwind(m, &found.java)
	}
	p.adoptFrames(st)
	st.Slot = slot
}

// callerOf returns the moment of the Java code that has called C, as if it were innermost: with
// the registers that C has kept for it.
func (p *Process) callerOf(m *process.Moment, f *ehframe.Frame, stack view) *process.Moment {
	p.caller = *m
	keep(&p.caller.Regs, f)
	p.caller.Stack, p.caller.Chain = stack.from(f.SP()), nil
	return &p.caller
}

// adoptFrames takes over the Java frames that were found.
func (p *Process) adoptFrames(st *process.Stack) {
	java := &foundIn(st).java
	for _, f := range java.Frames {
		if f.Kind != unwind.Inlined {
			st.PCs = append(st.PCs, placeOf(f))
		}
	}
	st.Slot, st.Rooted = java.Slot, java.Rooted
	st.Repaired = java.Repaired
	st.WantDump = st.WantDump || java.WantDump
}

// bytecodeShift leads from a method's address to the places in its bytecode. Addresses of user
// memory have 47 bits, and bytecode 16.
const bytecodeShift = 48

// placeOf returns the address of a frame: of its machine code, or of its method with the
// bytecode, because all methods share the interpreter's code.
func placeOf(f unwind.Frame) uint64 {
	if f.Kind == unwind.Interpreted {
		return f.Method | uint64(f.BCI+1)<<bytecodeShift
	}
	return f.PC
}

// Entry is part of [process.Runtime].
func (p *Process) Entry(pc uint64) uint64 {
	switch {
	case pc>>bytecodeShift != 0:
		return pc & (1<<bytecodeShift - 1)
	case p.native.holds(pc):
		return p.native.entry(pc)
	}
	return p.java.Entry(pc)
}

// mostNames bounds the names of threads: what a JVM takes for its threads may be any number.
const mostNames = 1 << 17

// threadName returns the name of a thread, as of the last second.
func (p *Process) threadName(tid uint32) string {
	name, known := p.threads[tid]
	if !known {
		name, _ = process.ThreadName(p.pid, tid)
		if len(p.threads) >= mostNames {
			clear(p.threads)
		}
		p.threads[tid] = name
	}
	return name
}
