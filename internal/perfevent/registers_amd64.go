package perfevent

import "github.com/ccmapd/ccmapd/internal/process"

// Numbers of registers in the kernel's masks, which golang.org/x/sys/unix does not
// have (arch/x86/include/uapi/asm/perf_regs.h, Linux 6.18).
const (
	RegAX, RegBX, RegCX, RegDX        = 0, 1, 2, 3
	RegSI, RegDI, RegBP, RegSP, RegIP = 4, 5, 6, 7, 8
	RegR8, RegR9, RegR10, RegR11      = 16, 17, 18, 19
	RegR12, RegR13, RegR14, RegR15    = 20, 21, 22, 23

	regG   = RegR14 // in Go code the descriptor of the goroutine
	regAny = RegCX  // any other
)

// sampleRegisters is the mask of [process.Registers].
const sampleRegisters = 1<<RegBX | 1<<RegBP | 1<<RegSP | 1<<RegIP |
	1<<RegR10 | 1<<RegR12 | 1<<RegR13 | 1<<RegR14 | 1<<RegR15

// registers reads the registers of a sample, in the order of their numbers.
func (c *cursor) registers() process.Registers {
	return process.Registers{
		BX: c.u64(), BP: c.u64(), SP: c.u64(), IP: c.u64(),
		R10: c.u64(), R12: c.u64(), R13: c.u64(), R14: c.u64(), R15: c.u64(),
	}
}
