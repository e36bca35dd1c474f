package hotspot

import (
	"github.com/ccmapd/ccmapd/internal/ehframe"
	"github.com/ccmapd/ccmapd/internal/process"
)

// keep sets the registers of a frame that Java frames are found by. C has kept them.
func keep(r *process.Registers, f *ehframe.Frame) {
	r.IP, r.SP = f.PC(), f.SP()
	r.BX, _ = f.Get(ehframe.BX)
	r.BP, _ = f.Get(ehframe.BP)
	r.R13, _ = f.Get(ehframe.R13)
	r.R15, _ = f.Get(ehframe.R15)
}

// callerOfLeaf returns the registers after the return from a function that has no frame.
func callerOfLeaf(r process.Registers, stack view) process.Registers {
	r.IP, _ = stack.word(r.SP)
	r.SP += 8
	return r
}

// slotUnder returns where the callee of a frame has its return address.
func slotUnder(f *ehframe.Frame) uint64 { return f.SP() - 8 }
