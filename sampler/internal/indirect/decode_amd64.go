package indirect

import (
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/arch/x86/x86asm"
)

// tailBytes is how many bytes at its end rule out most calls.
const tailBytes = 2

// callsRegister reports whether an instruction that ends with these bytes can be a
// call through a register: FF /2 with a register operand.
func callsRegister(tail [tailBytes]byte) bool { return tail[0] == 0xff && tail[1]&0xf8 == 0xd0 }

// lastCall disassembles a function from its entry up to a return address and
// returns the call that ends there, without its address, and the length of an indirect
// call. The code is the target's, and may be anything.
func lastCall(text []byte) (found Call, length int) {
	var loads [16]Kind // by register: how it was loaded last, in the order of the text
	for len(text) > 0 {
		inst, err := x86asm.Decode(text, 64)
		if err != nil || inst.Len <= 0 || inst.Len > len(text) {
			break
		}
		if len(text) == inst.Len {
			return registerCall(inst, &loads), inst.Len
		}
		if r, ok := inst.Args[0].(x86asm.Reg); ok && isWide(r) {
			loads[r-x86asm.RAX] = loadKind(inst)
		}
		text = text[inst.Len:]
	}
	return Call{Kind: Other}, 0
}

// registerCall describes a call through one of the registers that Go uses for
// calls: not the stack pointer, nor R14, which holds the goroutine.
func registerCall(inst x86asm.Inst, loads *[16]Kind) Call {
	r, ok := inst.Args[0].(x86asm.Reg)
	if inst.Op != x86asm.CALL || !ok || !isWide(r) || r == x86asm.RSP || r == x86asm.R14 {
		return Call{Kind: Other}
	}
	kind := loads[r-x86asm.RAX]
	if kind == Unseen {
		kind = Indirect
	}
	return Call{Kind: kind, Register: sampledRegisters[r-x86asm.RAX]}
}

func isWide(r x86asm.Reg) bool { return x86asm.RAX <= r && r <= x86asm.R15 }

// loadKind tells the kind of a call through a register from the instruction that loads
// the register. A function value points to its code; methods follow the head of
// an itab.
func loadKind(inst x86asm.Inst) Kind {
	m, ok := inst.Args[1].(x86asm.Mem)
	if inst.Op != x86asm.MOV || !ok || m.Index != 0 || m.Base == x86asm.RSP || m.Base == x86asm.RBP {
		return Indirect
	}
	switch {
	case m.Disp == 0:
		return Closure
	case m.Disp >= firstMethod && m.Disp%8 == 0:
		return Interface
	}
	return Indirect
}

// sampledRegisters translates the numbers of registers in instructions into the
// kernel's.
var sampledRegisters = [16]uint8{
	perfevent.RegAX, perfevent.RegCX, perfevent.RegDX, perfevent.RegBX, perfevent.RegSP, perfevent.RegBP, perfevent.RegSI, perfevent.RegDI,
	perfevent.RegR8, perfevent.RegR9, perfevent.RegR10, perfevent.RegR11, perfevent.RegR12, perfevent.RegR13, perfevent.RegR14, perfevent.RegR15,
}
