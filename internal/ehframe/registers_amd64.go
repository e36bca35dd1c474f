package ehframe

// The registers that unwinders name, and the number of registers (System V ABI for AMD64, figure 3.36).
const (
	BX  Register = 3
	BP  Register = 6
	SP  Register = 7
	R10 Register = 10
	R12 Register = 12
	R13 Register = 13
	R14 Register = 14
	R15 Register = 15
	PC  Register = 16 // DWARF calls it the return address

	Registers Register = 17
)

// callee are the registers that a function preserves, or saves.
const callee = 1<<BX | 1<<BP | 1<<R12 | 1<<R13 | 1<<R14 | 1<<R15

// returning returns the rules of an instruction where nothing is on the stack but the return address.
func returning() (cfa rule, rules []saved) {
	return rule{form: inRegister, reg: SP, offset: 8}, []saved{{PC, rule{form: atOffset, offset: -8}}}
}
