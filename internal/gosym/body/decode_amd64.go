package body

import (
	"encoding/binary"
	"iter"

	"golang.org/x/arch/x86/x86asm"
)

// instructions yields the instructions of code with their offsets. Bytes that are none are left out,
// one after the other.
func instructions(code []byte) iter.Seq2[int, x86asm.Inst] {
	return func(yield func(int, x86asm.Inst) bool) {
		for at := 0; at < len(code); {
			inst, err := x86asm.Decode(code[at:], 64)
			if err != nil || inst.Len <= 0 {
				at++
				continue
			}
			if !yield(at, inst) {
				return
			}
			at += inst.Len
		}
	}
}

// operands yields the operands that say how far away something is, in order.
func operands(code []byte, entry uint64) iter.Seq[operand] {
	return func(yield func(operand) bool) {
		for at, inst := range instructions(code) {
			if o, ok := operandOf(code, entry, at, inst); ok && !yield(o) {
				return
			}
		}
	}
}

func operandOf(code []byte, entry uint64, at int, inst x86asm.Inst) (operand, bool) {
	o := operand{at: at + inst.PCRelOff, size: inst.PCRel}
	if inst.PCRel == 0 || inst.PCRelOff+inst.PCRel > inst.Len {
		return operand{}, false
	}
	b, far := code[o.at:], int64(0)
	switch inst.PCRel {
	case 1:
		far = int64(int8(b[0]))
	case 2:
		far = int64(int16(binary.LittleEndian.Uint16(b)))
	case 4:
		far = int64(int32(binary.LittleEndian.Uint32(b)))
	default:
		return operand{}, false
	}
	o.target = entry + uint64(at+inst.Len) + uint64(far)
	return o, true
}

func calls(code []byte, entry uint64) iter.Seq[Call] {
	return func(yield func(Call) bool) {
		for at, inst := range instructions(code) {
			if inst.Op != x86asm.CALL {
				continue
			}
			call := Call{At: entry + uint64(at)}
			if _, direct := inst.Args[0].(x86asm.Rel); direct {
				o, _ := operandOf(code, entry, at, inst)
				call.Target = o.target
			}
			if !yield(call) {
				return
			}
		}
	}
}
