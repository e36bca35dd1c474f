package process

import "github.com/ccmapd/ccmapd/internal/ehframe"

// Registers are user-mode registers: the registers that Go and its runtime use, and the
// registers that C functions leave to their callers. Code for all machines uses SP, IP and the frame
// pointer BP alone.
type Registers struct {
	BX, BP, SP, IP, R10, R12, R13, R14, R15 uint64
}

// G returns the address of the goroutine's descriptor, in Go code (Go's internal ABI).
func (r Registers) G() uint64 { return r.R14 }

// Frame returns the registers for steps by call frame information.
func (r *Registers) Frame() (f ehframe.Frame) {
	f.Set(ehframe.BX, r.BX)
	f.Set(ehframe.BP, r.BP)
	f.Set(ehframe.SP, r.SP)
	f.Set(ehframe.PC, r.IP)
	f.Set(ehframe.R10, r.R10)
	f.Set(ehframe.R12, r.R12)
	f.Set(ehframe.R13, r.R13)
	f.Set(ehframe.R14, r.R14)
	f.Set(ehframe.R15, r.R15)
	return f
}
