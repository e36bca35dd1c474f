package bpf

//go:generate go tool bpf2go -tags linux -target amd64 -type target -type head -go-package bpf program record.bpf.c -- -O2 -Wall -Werror -I/usr/include/x86_64-linux-gnu

import "github.com/ccmapd/ccmapd/internal/process"

// Where registers are in a record, in words, as in kernel.h.
const (
	regR15, regR14, regR13, regR12, regBP, regBX = 0, 1, 2, 3, 4, 5
	regR10, regIP, regSP                         = 7, 16, 19
)

// registers returns the registers of a record.
func (h *programHead) registers() process.Registers {
	regs := &h.Regs
	return process.Registers{
		BX: regs[regBX], BP: regs[regBP], SP: regs[regSP], IP: regs[regIP],
		R10: regs[regR10], R12: regs[regR12], R13: regs[regR13], R14: regs[regR14], R15: regs[regR15],
	}
}
