package indirect

import (
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/process"
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
// CALLclosure of cmd/compile/internal/ssa/_gen, Go 1.26).
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
// The last bytes rule out most calls, which are direct.
func (f *Finder) Before(entry, ret uint64, inWrapper func(pc uint64) bool) Call {
	none := Call{Kind: Other}
	size := ret - entry
	if size < tailBytes || size > maxFunction {
		return none
	}
	var tail [tailBytes]byte
	if f.memory.Read(ret-tailBytes, tail[:]) != nil || !callsRegister(tail) {
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
