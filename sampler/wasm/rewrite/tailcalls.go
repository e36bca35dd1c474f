package rewrite

import "runtime"

// In a tail call the callee's frame replaces the caller's, and so the callee gets the
// caller's number. But wazevo (v1.12.0, backend/isa/amd64/machine.go and
// arm64/abi.go, lowerTailCall) makes it a plain call if parameters or results have
// to be passed on the stack. Then the caller's frame stays, and keeps its number: where
// there are numbers such a tail call is written as what it is, a call and a return.

// The registers that parameters and results are passed in (abi.go there). The
// first two parameters are wazevo's own.
const (
	intRegistersAMD64 = 9
	intRegistersARM64 = 8
	floatRegisters    = 8
	ownParameters     = 2
)

// fitsRegisters: parameters and results are all passed in registers.
func (s signature) fitsRegisters() bool {
	registers := intRegistersAMD64
	if runtime.GOARCH == "arm64" {
		registers = intRegistersARM64
	}
	return fit(s.params, registers-ownParameters) && fit(s.results, registers)
}

func fit(types []byte, registers int) bool {
	ints, floats := 0, 0
	for _, t := range types {
		if t == typeF32 || t == typeF64 || t == typeV128 {
			floats++
		} else {
			ints++
		}
	}
	return ints <= registers && floats <= floatRegisters
}

// callOp returns the opcode for the decoder's call of a function of a type: plain, if
// a tail call is to be written as that.
func (w *bodyWriter) callOp(plain byte, typ uint32) byte {
	if w.d.op != plain && w.face.numbered && !w.layout.fits[typ] {
		return plain
	}
	return w.d.op
}

// leave returns from the function behind a call that was a tail call.
func (w *bodyWriter) leave() {
	w.insert(w.d.at, w.d.start)
	w.buffer = append(w.buffer, opReturn)
}
