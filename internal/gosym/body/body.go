// Package body tells whether a function is the same in two builds of a program, by a hash of its
// machine code.
//
// Two links of one function differ in nearly all of their bytes that say how far away something
// else is. So the hash has, instead of such an operand that leaves the function, what lies there:
// the name of a function, or the kind of data. A call of something else is another body. Jumps
// within the function stay as they are, and so do bytes that are no instruction that is known here
// (AVX).
//
// Data is known by its kind alone: programs are stripped of its names, and its content moves with
// the rest of the program. A function that reads another variable of the same kind, or prints
// another text of the same length, keeps its hash.
package body

import (
	"encoding/binary"
	"iter"

	"github.com/cespare/xxhash/v2"
)

// Code is the machine code of one function, at its address.
type Code struct {
	Entry uint64
	Bytes []byte
}

// Namer says what is at an address outside of a function: the name of the function or the kind of
// the data that it belongs to, and the bytes from the beginning of the function. "" where that is
// not known: the operand then stays as it is.
type Namer interface {
	Name(addr uint64) (name string, offset uint64)
}

// Call is a direct call, or an indirect one.
type Call struct {
	At     uint64 // address of the instruction
	Target uint64 // 0: it is indirect
}

// operand is a part of an instruction that says how far away something is.
type operand struct {
	at, size int    // in the code, bytes
	target   uint64 // address
}

// padding is what the linker fills the room between functions with (INT3, cmd/link/internal/amd64).
const padding = 0xcc

// code returns the bytes without the padding that follows them.
func (c Code) code() []byte {
	end := len(c.Bytes)
	for end > 0 && c.Bytes[end-1] == padding {
		end--
	}
	return c.Bytes[:end]
}

// Hash returns the hash of a function, never 0 or all bits. The cost is linear in the bytes, about
// 0.3 µs for each, plus a look-up for each operand that leaves the function.
func (c Code) Hash(names Namer) uint64 {
	code, hashed := c.code(), 0
	h := xxhash.New()
	for o := range operands(code, c.Entry) {
		if o.target-c.Entry < uint64(len(code)) {
			continue
		}
		name, offset := names.Name(o.target)
		if name == "" {
			continue
		}
		h.Write(code[hashed:o.at])
		var tail [9]byte // begins with the end of the name
		binary.LittleEndian.PutUint64(tail[1:], offset)
		h.WriteString(name)
		h.Write(tail[:])
		hashed = o.at + o.size
	}
	h.Write(code[hashed:])
	return min(max(h.Sum64(), 1), 1<<64-2)
}

// References yields the addresses that the function's instructions refer to by their distance, in the order of
// the instructions.
func (c Code) References() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for o := range operands(c.code(), c.Entry) {
			if !yield(o.target) {
				return
			}
		}
	}
}

// Calls yields the calls of a function, in the order of addresses.
func (c Code) Calls() iter.Seq[Call] { return calls(c.code(), c.Entry) }
