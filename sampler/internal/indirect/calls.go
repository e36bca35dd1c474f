package indirect

import (
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
	"golang.org/x/arch/x86/x86asm"
)

// Kind is the sort of a call that ends at a return address.
type Kind uint8

const (
	Unseen    Kind = iota // not looked at yet
	Other                 // a direct call, or a call that cannot be caught
	Interface             // through a method table
	Closure               // of a function value
	Indirect              // through a register that was loaded in some other way
)

// Call is an instruction that calls the address in a register. Go compiles calls
// of interface methods and of function values to it, and no others (CALLinter and
// CALLclosure of cmd/compile/internal/ssa/_gen/AMD64Ops.go, Go 1.26).
type Call struct {
	Kind     Kind
	Register uint8  // its number in the kernel's mask
	PC       uint64 // of the instruction
}

func (c Call) indirect() bool { return c.Kind > Other }

func (c Call) breakpoint() perfevent.Breakpoint {
	return perfevent.Breakpoint{PC: c.PC, Register: c.Register, Callers: MaxChain}
}

const (
	// maxFunction bounds the code that is disassembled at once, bytes: some ms.
	maxFunction = 1 << 16
	// effortRate bounds how much code is disassembled in a second, bytes: 1 or 2 %
	// of a core, as long as stacks have calls that were not looked at.
	effortRate = 1 << 17
	// firstMethod is the offset of the first method in an itab
	// (internal/abi.ITab.Fun, Go 1.20 to 1.26; runtime.itab.fun, Go 1.18 and 1.19).
	firstMethod = 24
)

// Finder disassembles the target's code within a budget, so that neither a large
// program nor one that maps code all the time keeps the engine from its samples.
// It belongs to the engine's goroutine.
type Finder struct {
	memory process.Memory
	bytes  int // that may be disassembled now
	filled time.Time
}

// fill adds the code that the time since the last call is worth.
func (f *Finder) fill(now time.Time) {
	part := min(now.Sub(f.filled).Seconds(), 1)
	f.bytes = min(f.bytes+int(part*effortRate), maxFunction)
	f.filled = now
}

// Before finds the call that ends at a return address, in the function that begins at
// entry. The result is Unseen while there is too much to disassemble: ask again. Calls
// of wrappers are left out, because samples do not show wrappers as callers.
//
// The last two bytes rule out most calls, which are direct.
func (f *Finder) Before(entry, ret uint64, inWrapper func(pc uint64) bool) Call {
	none := Call{Kind: Other}
	size := ret - entry
	if size < 2 || size > maxFunction {
		return none
	}
	var tail [2]byte
	if f.memory.Read(ret-2, tail[:]) != nil || !callsRegister(tail) {
		return none
	}
	if int(size) > f.bytes {
		return Call{}
	}
	f.bytes -= int(size)
	text := make([]byte, size)
	if f.memory.Read(entry, text) != nil {
		return none
	}
	found, length := lastCall(text)
	found.PC = ret - uint64(length)
	if !found.indirect() || inWrapper(found.PC) {
		return none
	}
	return found
}

// callsRegister reports whether an instruction that ends with these bytes can be a
// call through a register: FF /2 with a register operand.
func callsRegister(tail [2]byte) bool { return tail[0] == 0xff && tail[1]&0xf8 == 0xd0 }

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
