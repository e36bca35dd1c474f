package gosym

// pcQuantum is the least length of an instruction, bytes (internal/runtime/sys.PCQuantum).
const pcQuantum = 1
