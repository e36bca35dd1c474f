package ehframe

import (
	"errors"

	"github.com/ccmapd/ccmapd/internal/cursor"
)

// Register is the DWARF number of a register.
type Register uint8

// register returns the register with a number, or Registers, which is always unknown.
func register(n uint64) Register { return Register(min(n, uint64(Registers))) }

// Frame is the known registers of a frame.
type Frame struct {
	values [Registers]uint64
	known  uint64
}

// Set makes a register known.
func (f *Frame) Set(r Register, v uint64) {
	f.values[r] = v
	f.known |= 1 << r
}

// Get returns a register, and whether it is known.
func (f *Frame) Get(r Register) (uint64, bool) {
	if r >= Registers || f.known&(1<<r) == 0 {
		return 0, false
	}
	return f.values[r], true
}

// PC and SP return the two registers that unwinding needs, or 0 if unknown.
func (f *Frame) PC() uint64 { return f.values[PC] }
func (f *Frame) SP() uint64 { return f.values[SP] }

// Ending is the result of a step up the stack.
type Ending uint8

const (
	Stepped    Ending = iota // the frame is the caller's
	AtRoot                   // nothing called this function
	Unreadable               // a saved register is not in the piece of stack
	Lost                     // a rule needs an unknown value
)

// Up makes f the caller's frame. word reads a word of the stack. f changes only if the
// result is Stepped.
func (r *Row) Up(f *Frame, word func(addr uint64) (uint64, bool)) Ending {
	e := evaluator{f: f, word: word}
	cfa := e.frameAddress(r.cfa)
	if e.ending != Stepped {
		return e.ending
	}
	up := Frame{values: f.values, known: f.known & callee}
	up.Set(SP, cfa)
	up.known &^= 1 << PC
	for _, s := range r.rules {
		if s.reg == PC && s.form == undefined {
			return AtRoot
		}
		up.known &^= 1 << s.reg
		if v, ok := e.saved(s, cfa); ok {
			up.Set(s.reg, v)
		} else if e.ending != Stepped {
			return e.ending
		}
	}
	if up.known&(1<<PC) == 0 || up.SP() <= f.SP() {
		return Lost
	}
	*f = up
	return Stepped
}

// Born reports whether a step up from code of a [Row.Fork] was one of the new thread, which has no
// caller. Where the old one has its return address, a new stack is empty, or has the address at
// which the thread's first function begins. row is the table's.
func (r *Row) Born(up *Frame, how Ending, row func(pc uint64) (*Row, bool)) bool {
	if !r.Fork || how != Stepped {
		return r.Fork
	}
	at, ok := row(up.PC())
	return !ok || at.Entry == up.PC()
}

// evaluator applies rules to a frame.
type evaluator struct {
	f      *Frame
	word   func(addr uint64) (uint64, bool)
	ending Ending
}

func (e *evaluator) fail(how Ending) uint64 {
	e.ending = how
	return 0
}

func (e *evaluator) register(r Register) uint64 {
	v, ok := e.f.Get(r)
	if !ok {
		return e.fail(Lost)
	}
	return v
}

func (e *evaluator) load(addr uint64) uint64 {
	v, ok := e.word(addr)
	if !ok {
		return e.fail(Unreadable)
	}
	return v
}

func (e *evaluator) frameAddress(r rule) uint64 {
	if r.form == isExpr {
		return e.evaluate(r.expr)
	}
	return e.register(r.reg) + uint64(r.offset)
}

// saved returns the value of a caller's register. An undefined register is unknown.
// Memory that cannot be read ends the step. A register saved below SP has been restored:
// compilers do not say so in every epilogue.
func (e *evaluator) saved(r saved, cfa uint64) (uint64, bool) {
	var v uint64
	switch r.form {
	case atOffset:
		at := cfa + uint64(r.offset)
		if at < e.f.SP() {
			return e.f.Get(r.reg)
		}
		v = e.load(at)
	case isOffset:
		v = cfa + uint64(r.offset)
	case inRegister:
		return e.f.Get(r.rule.reg)
	case atExpr:
		if v = e.evaluate(r.expr, cfa); e.ending == Stepped {
			v = e.load(v)
		}
	case isExpr:
		v = e.evaluate(r.expr, cfa)
	default:
		return 0, false
	}
	return v, e.ending == Stepped
}

// Bounds of an expression: its bytes, and the values on its stack.
const (
	maxExpr   = 256
	maxValues = 32
)

var errExpr = errors.New("expression too long")

// evaluate runs an expression, on a stack that begins with values. Branches, which
// compilers do not use here, are unknown.
func (e *evaluator) evaluate(expr []byte, values ...uint64) uint64 {
	var stack [maxValues]uint64
	n := copy(stack[:], values)
	r := reader{Cursor: cursor.Cursor{Data: expr}}
	for !r.Empty() {
		op := r.Byte()
		if v, ok := e.operand(&r, op); ok {
			if n == maxValues {
				return e.fail(Lost)
			}
			stack[n] = v
			n++
			continue
		}
		if n = e.operate(&r, op, stack[:], n); n == 0 {
			return e.fail(Lost)
		}
		if e.ending != Stepped {
			return 0
		}
	}
	if n == 0 || r.Err != nil {
		return e.fail(Lost)
	}
	return stack[n-1]
}

// operand returns the value that an instruction pushes.
func (e *evaluator) operand(r *reader, op byte) (uint64, bool) {
	switch {
	case op >= 0x30 && op <= 0x4f: // DW_OP_lit
		return uint64(op - 0x30), true
	case op >= 0x70 && op <= 0x8f: // DW_OP_breg
		return e.register(register(uint64(op-0x70))) + uint64(r.Sleb()), true
	}
	switch op {
	case 0x08: // DW_OP_const1u, and so on
		return uint64(r.Byte()), true
	case 0x09:
		return uint64(int8(r.Byte())), true
	case 0x0a:
		return uint64(r.U16()), true
	case 0x0b:
		return uint64(int16(r.U16())), true
	case 0x0c:
		return uint64(r.U32()), true
	case 0x0d:
		return uint64(int32(r.U32())), true
	case 0x0e, 0x0f:
		return r.U64(), true
	case 0x10: // DW_OP_constu
		return r.Uleb(), true
	case 0x11:
		return uint64(r.Sleb()), true
	}
	return 0, false
}

// operate runs an instruction on a stack of n values, and returns the new number of
// values; 0: it cannot.
func (e *evaluator) operate(r *reader, op byte, stack []uint64, n int) int {
	if n == 0 {
		return 0
	}
	top := &stack[n-1]
	switch op {
	case 0x06: // DW_OP_deref
		*top = e.load(*top)
		return n
	case 0x12: // DW_OP_dup
		if n == len(stack) {
			return 0
		}
		stack[n] = *top
		return n + 1
	case 0x1f: // DW_OP_neg
		*top = -*top
		return n
	case 0x20: // DW_OP_not
		*top = ^*top
		return n
	case 0x23: // DW_OP_plus_uconst
		*top += r.Uleb()
		return n
	case 0x96: // DW_OP_nop
		return n
	}
	if n < 2 {
		return 0
	}
	v, ok := binaryOp(op, stack[n-2], stack[n-1])
	if !ok {
		return 0
	}
	stack[n-2] = v
	return n - 1
}

// binaryOp computes a op b.
func binaryOp(op byte, a, b uint64) (uint64, bool) {
	truth := func(t bool) (uint64, bool) {
		if t {
			return 1, true
		}
		return 0, true
	}
	switch op {
	case 0x1a: // DW_OP_and
		return a & b, true
	case 0x1c: // DW_OP_minus
		return a - b, true
	case 0x1e: // DW_OP_mul
		return a * b, true
	case 0x21: // DW_OP_or
		return a | b, true
	case 0x22: // DW_OP_plus
		return a + b, true
	case 0x24: // DW_OP_shl
		return a << b, true
	case 0x25: // DW_OP_shr
		return a >> b, true
	case 0x26: // DW_OP_shra
		return uint64(int64(a) >> b), true
	case 0x27: // DW_OP_xor
		return a ^ b, true
	case 0x29: // DW_OP_eq, and so on
		return truth(a == b)
	case 0x2a:
		return truth(int64(a) >= int64(b))
	case 0x2b:
		return truth(int64(a) > int64(b))
	case 0x2c:
		return truth(int64(a) <= int64(b))
	case 0x2d:
		return truth(int64(a) < int64(b))
	case 0x2e:
		return truth(a != b)
	}
	return 0, false
}
