package gosym

import "debug/elf"

// machine is the one whose code is read here.
const machine = elf.EM_X86_64

// pcQuantum is the least length of an instruction, bytes (internal/runtime/sys.PCQuantum).
const pcQuantum = 1
