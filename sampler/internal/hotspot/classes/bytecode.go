package classes

import "encoding/binary"

// Opcodes that need a look, as class files have them (JVMS 6.5).
const (
	opIinc         = 132
	opTableSwitch  = 170
	opLookupSwitch = 171
	opGetStatic    = 178
	opPutField     = 181
	opInvokeDyn    = 186
	opNew          = 187
	opANewArray    = 189
	opCheckCast    = 192
	opInstanceOf   = 193
	opWide         = 196
	opMultiArray   = 197
	lastOp         = 201
)

// Opcodes of constants: Java's, and two that the JVM writes over the first two where the constant is an object. These
// have an index of the JVM's own.
const (
	opLdc       = 18
	opLdcWide   = 19
	opLdc2      = 20
	opFastALdc  = 230
	opFastALdcW = 231
)

// original has the opcodes of class files by the JVM's own, from the first one on: what is written over a bytecode when
// its class is linked, when it is run for the first time, or when it is archived (interpreter/bytecodes.hpp of 17, 21
// and 25). 0 is a breakpoint: what it has replaced is elsewhere.
var original = [...]byte{
	0,                                      // 202, breakpoint
	180, 180, 180, 180, 180, 180, 180, 180, // 203, fast_agetfield …
	181, 181, 181, 181, 181, 181, 181, 181, 181, // 211, fast_aputfield …
	42, 42, 42, 42, // 220, fast_aload_0, fast_iaccess_0 …: the bytecode that follows stays
	21, 21, 21, // 224, fast_iload, fast_iload2, fast_icaload: likewise
	182,      // 227, fast_invokevfinal
	171, 171, // 228, fast_linearswitch, fast_binaryswitch
	opLdc, opLdcWide, // 230
	177,              // 232, return_register_finalizer
	182,              // 233, invokehandle
	180, 181, 42, 21, // 234, nofast_getfield …
}

const firstOwn = lastOp + 1

// lengths has the sizes of instructions, by opcode; 0: it says so itself.
var lengths = func() (n [lastOp + 1]byte) {
	for op := range n {
		switch {
		case op == 16, op == opLdc, op >= 21 && op <= 25, op >= 54 && op <= 58, op == 169, op == 188:
			n[op] = 2
		case op == 17, op == opLdcWide, op == opLdc2, op == opIinc, op >= 153 && op <= 168, op >= opGetStatic && op <= 184,
			op == opNew, op == opANewArray, op == opCheckCast, op == opInstanceOf, op == 198, op == 199:
			n[op] = 3
		case op == opMultiArray:
			n[op] = 4
		case op == opInvokeInterface, op == opInvokeDyn, op >= 200:
			n[op] = 5
		case op == opTableSwitch, op == opLookupSwitch, op == opWide:
		default:
			n[op] = 1
		}
	}
	return n
}()

// instruction is one of a bytecode.
type instruction struct {
	op   byte   // as the class file has it
	own  byte   // as the JVM has it
	rest []byte // behind the opcode
}

// nextInstruction returns the instruction at an index, and the index of the one behind it. It returns false where
// there is none that is known.
func nextInstruction(code []byte, at int) (i instruction, next int, ok bool) {
	own := code[at]
	op := own
	if own >= firstOwn {
		if int(own-firstOwn) >= len(original) {
			return i, 0, false
		}
		if op = original[own-firstOwn]; op == 0 {
			return i, 0, false
		}
	}
	size := int(lengths[op])
	if size == 0 {
		size = lengthAt(code, at, op)
	}
	if size <= 0 || size > len(code)-at {
		return i, 0, false
	}
	return instruction{op, own, code[at+1 : at+size]}, at + size, true
}

// lengthAt returns the size of an instruction that says it itself, 0 where it does not.
func lengthAt(code []byte, at int, op byte) int {
	if op == opWide {
		if at+1 < len(code) && code[at+1] == opIinc {
			return 6
		}
		return 4
	}
	begin := (at + 4) &^ 3 // of the words, which are aligned
	word := func(i int) int {
		if begin+4*i+4 > len(code) {
			return -1
		}
		return int(int32(binary.BigEndian.Uint32(code[begin+4*i:])))
	}
	words := 2 + 2*word(1)
	if op == opTableSwitch {
		words = 3 + word(2) - word(1) + 1
	}
	if words < 2 || words > len(code) {
		return 0
	}
	return begin + 4*words - at
}
