package goproc

import (
	"slices"

	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// foreign unwinds a sample whose innermost function is not Go. Where call frame
// information leads to no root, the kernel's chain may do so.
func (u *unwinder) foreign(s *process.Moment, top *place, dump stackView, out *stack) {
	u.x.start(&s.Regs, dump)
	if u.callers(s, true, out) {
		return
	}
	byGo := top.kind == gosym.KindVDSO && u.code.at(u.x.frame.PC()).kind == gosym.KindGo
	chain := stack{Stack: process.Stack{PCs: append(u.walked[:0], s.Regs.IP)}}
	callers := s.Callers()
	if byGo {
		callers = u.repairVDSO(callers, dump, &chain)
	}
	chain.PCs = append(chain.PCs, callers...)
	u.walked = chain.PCs
	if byGo || u.leadsToRoot(chain.PCs) {
		out.PCs = append(out.PCs[:0], chain.PCs...)
		out.saved, out.Repaired = chain.saved, chain.Repaired
	}
}

// leadsToRoot says whether one of the functions is called by nothing.
func (u *unwinder) leadsToRoot(pcs []uint64) bool {
	return slices.ContainsFunc(pcs, func(pc uint64) bool { return u.code.at(pc).root })
}

// climb appends the C functions from the frame on, and goes up until the frame is
// in Go code. first says that the frame's PC is no return address. entry is where
// the code of the outermost C function begins.
func (u *unwinder) climb(first bool, pcs []uint64) (_ []uint64, entry uint64, end ending) {
	for range maxFrames {
		pc := u.x.frame.PC()
		kind := u.code.at(pc).kind
		if kind == gosym.KindGo {
			return pcs, entry, endInGo
		}
		pcs = append(pcs, pc)
		if !first {
			pc--
		}
		row, ok := u.code.row(pc)
		if !ok {
			if !u.byFramePointer() {
				return pcs, entry, endLost
			}
			first, entry = false, 0
			continue
		}
		if !u.code.spend(row.Steps()) {
			return pcs, entry, endLost
		}
		first, entry = row.Signal, row.Entry
		how := row.Up(&u.x.frame, u.x.inC.word)
		if row.Born(&u.x.frame, how, u.code.row) {
			return pcs, entry, endAtRoot
		}
		switch how {
		case ehframe.AtRoot:
			return pcs, entry, endAtRoot
		case ehframe.Unreadable:
			return pcs, entry, endOfDump
		case ehframe.Lost:
			return pcs, entry, endLost
		}
	}
	return pcs, entry, endLost
}

// byFramePointer goes up from a function without call frame information, such as
// hand-written assembly, if the frame pointer shows a frame that was called from
// known code.
func (u *unwinder) byFramePointer() bool {
	f := &u.x.frame
	bp, ok := f.Get(ehframe.BP)
	if !ok || bp&7 != 0 || bp < f.SP() {
		return false
	}
	next, ok1 := u.x.inC.word(bp)
	pc, ok2 := u.x.inC.word(bp + 8)
	if !ok1 || !ok2 || u.code.at(pc).kind == gosym.KindUnknown {
		return false
	}
	*f = ehframe.Frame{}
	f.Set(ehframe.PC, pc)
	f.Set(ehframe.SP, bp+16)
	f.Set(ehframe.BP, next)
	return true
}

// skipForeign drops the words that the kernel took for callers, until the first Go code:
// a vDSO function may hold anything in the frame pointer.
func (u *unwinder) skipForeign(callers []uint64) []uint64 {
	for i, pc := range callers {
		if u.code.at(pc).kind == gosym.KindGo {
			return callers[i:]
		}
	}
	return nil
}

// repairVDSO appends the runtime's function that called the vDSO, unless the
// kernel has found it, and returns the callers that are left to append. The
// vDSO's code does not keep a frame, and the runtime calls it on the thread's
// stack with the goroutine's frame pointer left alone: the call is found by its
// return address, just above SP.
func (u *unwinder) repairVDSO(callers []uint64, dump stackView, out *stack) []uint64 {
	const near = 512 // bytes; a vDSO function has a small frame
	for at := dump.base; at < dump.base+near; at += 8 {
		pc, ok := dump.word(at)
		if !ok {
			break
		}
		if !u.code.isGo(pc) || !u.code.at(pc).callsVDSO {
			continue
		}
		out.saved = dump.bytes[:at-dump.base]
		if len(callers) > 0 && callers[0] == pc {
			break
		}
		out.PCs = append(out.PCs, pc)
		out.Repaired = true
		return u.skipForeign(callers)
	}
	return callers
}
