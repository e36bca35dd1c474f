package perf

import (
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"golang.org/x/arch/x86/x86asm"
)

// callKind says what sort of call ends at a return address.
type callKind uint8

const (
	callUnseen    callKind = iota // not looked at, or not yet
	callOther                     // not through a register, or none that can be caught
	callInterface                 // through a method table
	callClosure                   // of a function value
	callIndirect                  // through a register that was loaded in some other way
)

// call is an instruction that calls what a register holds: so Go compiles calls
// of interface methods and of function values, and nothing else (CALLinter and
// CALLclosure of cmd/compile/internal/ssa/_gen/AMD64Ops.go, Go 1.26).
type call struct {
	kind callKind
	reg  uint8  // number of the register in the kernel's mask
	pc   uint64 // of the instruction
}

func (c call) breakpoint() perfevent.Breakpoint {
	return perfevent.Breakpoint{PC: c.pc, Register: c.reg, Callers: hitCallers}
}

func (c call) indirect() bool { return c.kind > callOther }

const (
	// maxFunction bounds the code that is disassembled at once, bytes: some ms.
	maxFunction = 1 << 16
	// effortRate bounds how much code is disassembled in a second, bytes: 1 or 2 %
	// of a core, as long as calls turn up that were not looked at.
	effortRate = 1 << 17
	// firstMethod is the offset of the first method in an itab
	// (internal/abi.ITab.Fun, Go 1.20 to 1.26).
	firstMethod = 24
)

// effort is how much code may be disassembled now, so that neither a large
// program nor one that maps code all the time, which empties the cache of places,
// keeps the drainer from its rings.
type effort struct {
	bytes  int
	filled time.Time
}

// fill adds what the time since the last one is worth.
func (e *effort) fill(now time.Time) {
	part := min(now.Sub(e.filled).Seconds(), 1)
	e.bytes = min(e.bytes+int(part*effortRate), maxFunction)
	e.filled = now
}

// callBefore returns the call that a return address in Go code belongs to. It
// is read from the target's memory when it is asked for first, or later when
// there was too much to read.
func (c *code) callBefore(ret uint64, mem reader) call {
	p := c.at(ret)
	if p.call.kind == callUnseen && p.catchable {
		p.call = c.disassemble(p, ret, mem)
	}
	return p.call
}

// disassemble finds the call that ends at ret, or none yet. The last two bytes
// rule out most calls, which are direct; wrappers are left out because samples do
// not show them as callers.
func (c *code) disassemble(p *place, ret uint64, mem reader) call {
	none := call{kind: callOther}
	size := ret - p.entry
	if size < 2 || size > maxFunction {
		return none
	}
	var tail [2]byte
	if mem.read(ret-2, tail[:]) != nil || !callsRegister(tail) {
		return none
	}
	if int(size) > c.effort.bytes {
		return call{}
	}
	c.effort.bytes -= int(size)
	text := make([]byte, size)
	if mem.read(p.entry, text) != nil {
		return none
	}
	found, length := lastCall(text)
	found.pc = ret - uint64(length)
	if !found.indirect() || c.table.InWrapper(found.pc) {
		return none
	}
	return found
}

// callsRegister says whether an instruction that ends with these bytes can be a
// call through a register: FF /2 with a register operand.
func callsRegister(tail [2]byte) bool { return tail[0] == 0xff && tail[1]&0xf8 == 0xd0 }

// lastCall disassembles a function from its entry up to a return address and
// returns the call that ends there, without its address. Of an indirect one it
// returns the length, too. The code is the target's, and may be anything.
func lastCall(text []byte) (found call, length int) {
	var loads [16]callKind // by register: how it was loaded last, in the order of the text
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
	return call{kind: callOther}, 0
}

// registerCall describes a call through one of the registers that Go uses for
// it: not the stack pointer, nor R14, which holds the goroutine.
func registerCall(inst x86asm.Inst, loads *[16]callKind) call {
	r, ok := inst.Args[0].(x86asm.Reg)
	if inst.Op != x86asm.CALL || !ok || !isWide(r) || r == x86asm.RSP || r == x86asm.R14 {
		return call{kind: callOther}
	}
	kind := loads[r-x86asm.RAX]
	if kind == callUnseen {
		kind = callIndirect
	}
	return call{kind: kind, reg: sampledRegisters[r-x86asm.RAX]}
}

func isWide(r x86asm.Reg) bool { return x86asm.RAX <= r && r <= x86asm.R15 }

// loadKind tells from the instruction that loads a register what a call through
// it calls. A function value points to its code; methods stand behind the head of
// an itab.
func loadKind(inst x86asm.Inst) callKind {
	m, ok := inst.Args[1].(x86asm.Mem)
	if inst.Op != x86asm.MOV || !ok || m.Index != 0 || m.Base == x86asm.RSP || m.Base == x86asm.RBP {
		return callIndirect
	}
	switch {
	case m.Disp == 0:
		return callClosure
	case m.Disp >= firstMethod && m.Disp%8 == 0:
		return callInterface
	}
	return callIndirect
}

// sampledRegisters translates the numbers of registers in instructions into the
// kernel's.
var sampledRegisters = [16]uint8{
	perfevent.RegAX, perfevent.RegCX, perfevent.RegDX, perfevent.RegBX, perfevent.RegSP, perfevent.RegBP, perfevent.RegSI, perfevent.RegDI,
	perfevent.RegR8, perfevent.RegR9, perfevent.RegR10, perfevent.RegR11, perfevent.RegR12, perfevent.RegR13, perfevent.RegR14, perfevent.RegR15,
}
