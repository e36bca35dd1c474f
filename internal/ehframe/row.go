package ehframe

import (
	"cmp"
	"slices"
)

// Row says where the caller's registers are at one instruction. It is immutable and keeps
// its table's section.
type Row struct {
	// Entry is the virtual address where the function begins, or the part of it that the
	// compiler has moved elsewhere.
	Entry uint64
	// Signal says that the kernel has called the function to handle a signal. Up then
	// returns the exact address where the signal interrupted the caller.
	Signal bool
	// Fork says that the code follows the system call that makes a thread. glibc's clone and
	// clone3 have no call frame information there, because two threads run it: see [Row.Born].
	Fork bool

	cfa   rule // the canonical frame address: SP before the call
	rules []saved
	steps int
}

// saved is the rule for one register of the caller.
type saved struct {
	reg Register
	rule
}

// A rule gives a value. Its zero value says that the value is unknown.
type rule struct {
	form   ruleForm
	reg    Register
	offset int64
	expr   []byte
}

type ruleForm uint8

const (
	untold     ruleForm = iota
	undefined           // missing; for the return address: nothing called the function
	same                // unchanged
	atOffset            // in memory, at the frame address plus offset
	isOffset            // the frame address plus offset
	inRegister          // in reg; for the frame address, plus offset
	atExpr              // in memory, at the value of expr
	isExpr              // the value of expr
)

// maxSteps bounds the instructions for one row. maxStates bounds the states that a
// program remembers at once. Remembering takes as long as stateSteps instructions.
const (
	maxSteps   = 1 << 14
	maxStates  = 8
	stateSteps = 32
)

// Row returns the row of the instruction at a virtual address, or false. For a return
// address pass the address before it, which is in the call.
//
// Each instruction takes one of the steps. Without enough steps there is no row.
func (t *Table) Row(pc uint64, steps *int) (*Row, bool) {
	f := t.find(pc)
	if f == nil {
		return t.fork(pc, steps)
	}
	most := min(*steps, maxSteps)
	m := machine{t: t, f: f, loc: f.start, target: pc, steps: most}
	defer func() { *steps -= most - max(m.steps, 0) }()
	if !m.run(f.cie.program) || m.loc > pc {
		return nil, false
	}
	m.initial = m.now
	if !m.run(f.program) {
		return nil, false
	}
	return m.row()
}

// maxFork bounds the code between the system call that makes a thread and the new thread's own
// code, bytes. glibc 2.36 has 10, with the call.
const maxFork = 32

// fork returns the row of code that has none, right before code that nothing calls: the new
// thread jumps there, and the old one returns. Nothing is on its stack but the return address
// (sysdeps/unix/sysv/linux/x86_64/clone.S and clone3.S, glibc 2.36).
func (t *Table) fork(pc uint64, steps *int) (*Row, bool) {
	i, _ := slices.BinarySearchFunc(t.funcs, pc, func(f function, pc uint64) int { return cmp.Compare(f.start, pc) })
	if i == 0 || i == len(t.funcs) || t.funcs[i].start-t.funcs[i-1].end > maxFork {
		return nil, false
	}
	next, ok := t.Row(t.funcs[i].start, steps)
	if !ok || !next.isRoot() {
		return nil, false
	}
	cfa, rules := returning()
	return &Row{Entry: t.funcs[i-1].start, Fork: true, steps: int(Registers), cfa: cfa, rules: rules}, true
}

// isRoot reports whether nothing has called the function.
func (r *Row) isRoot() bool {
	return slices.ContainsFunc(r.rules, func(s saved) bool { return s.reg == PC && s.form == undefined })
}

// machine runs the programs of a CIE and an FDE.
type machine struct {
	t           *Table
	f           *function
	loc, target uint64
	now         state
	initial     state // after the CIE's program
	stack       [maxStates]state
	depth       int
	steps       int // that are left
}

// state is the rules at an instruction.
type state struct {
	cfa  rule
	regs [Registers]rule
}

// Steps returns roughly the number of steps that Up takes: most for expressions.
func (r *Row) Steps() int { return r.steps }

func (m *machine) row() (*Row, bool) {
	r := &Row{Entry: m.f.start, Signal: m.f.cie.signal, cfa: m.now.cfa, steps: int(Registers) + len(m.now.cfa.expr)}
	if m.f.cie.ra != uint64(PC) || r.cfa.form == untold {
		return nil, false
	}
	for reg, rule := range m.now.regs {
		if rule.form != untold && rule.form != same {
			r.rules = append(r.rules, saved{Register(reg), rule})
			r.steps += len(rule.expr)
		}
	}
	return r, true
}

// run runs a program up to the target, and reports whether it understood all
// instructions.
func (m *machine) run(program span) bool {
	r := m.t.reader(program)
	for !r.Empty() {
		if m.steps--; m.steps < 0 {
			return false
		}
		op := r.Byte()
		next, advances := m.advance(&r, op)
		switch {
		case advances && next > m.target:
			return r.Err == nil
		case advances:
			m.loc = next
		case !m.step(&r, op):
			return false
		}
	}
	return r.Err == nil
}

// advance returns the first address of the following rules.
func (m *machine) advance(r *reader, op byte) (next uint64, ok bool) {
	var delta uint64
	switch {
	case op&0xc0 == 0x40: // DW_CFA_advance_loc
		delta = uint64(op & 0x3f)
	case op == 0x01: // DW_CFA_set_loc
		return r.pointer(m.f.cie.encoding, m.t.addr), true
	case op == 0x02: // DW_CFA_advance_loc1
		delta = uint64(r.Byte())
	case op == 0x03:
		delta = uint64(r.U16())
	case op == 0x04:
		delta = uint64(r.U32())
	default:
		return 0, false
	}
	return m.loc + delta*m.f.cie.codeAlign, true
}

// step runs an instruction that changes rules.
func (m *machine) step(r *reader, op byte) bool {
	low := uint64(op & 0x3f)
	switch op & 0xc0 {
	case 0x80: // DW_CFA_offset
		return m.set(low, rule{form: atOffset, offset: m.scaled(r.Uleb())})
	case 0xc0: // DW_CFA_restore
		return m.restore(low)
	}
	switch op {
	case 0x00: // DW_CFA_nop
		return true
	case 0x0a: // DW_CFA_remember_state
		return m.remember()
	case 0x0b:
		return m.recall()
	case 0x2e: // DW_CFA_GNU_args_size
		r.Uleb()
		return true
	}
	if op >= 0x0c && op <= 0x0f || op == 0x12 || op == 0x13 {
		return m.defineCFA(r, op)
	}
	return m.defineRegister(r, op)
}

// defineCFA runs an instruction that defines the frame address.
func (m *machine) defineCFA(r *reader, op byte) bool {
	c := &m.now.cfa
	switch op {
	case 0x0c: // DW_CFA_def_cfa
		*c = rule{form: inRegister, reg: register(r.Uleb()), offset: int64(r.Uleb())}
	case 0x12: // DW_CFA_def_cfa_sf
		*c = rule{form: inRegister, reg: register(r.Uleb()), offset: r.Sleb() * m.f.cie.dataAlign}
	case 0x0d: // DW_CFA_def_cfa_register
		c.reg = register(r.Uleb())
		return c.form == inRegister
	case 0x0e: // DW_CFA_def_cfa_offset
		c.offset = int64(r.Uleb())
		return c.form == inRegister
	case 0x13: // DW_CFA_def_cfa_offset_sf
		c.offset = r.Sleb() * m.f.cie.dataAlign
		return c.form == inRegister
	case 0x0f: // DW_CFA_def_cfa_expression
		*c = rule{form: isExpr, expr: r.block()}
	}
	return r.Err == nil
}

// defineRegister runs an instruction that defines a register of the caller.
func (m *machine) defineRegister(r *reader, op byte) bool {
	if op < 0x05 || op > 0x16 && op != 0x2f {
		return false
	}
	reg := r.Uleb()
	switch op {
	case 0x05: // DW_CFA_offset_extended
		return m.set(reg, rule{form: atOffset, offset: m.scaled(r.Uleb())})
	case 0x06: // DW_CFA_restore_extended
		return m.restore(reg)
	case 0x07: // DW_CFA_undefined
		return m.set(reg, rule{form: undefined})
	case 0x08: // DW_CFA_same_value
		return m.set(reg, rule{form: same})
	case 0x09: // DW_CFA_register
		return m.set(reg, rule{form: inRegister, reg: register(r.Uleb())})
	case 0x10: // DW_CFA_expression
		return m.set(reg, rule{form: atExpr, expr: r.block()})
	case 0x11: // DW_CFA_offset_extended_sf
		return m.set(reg, rule{form: atOffset, offset: r.Sleb() * m.f.cie.dataAlign})
	case 0x14: // DW_CFA_val_offset
		return m.set(reg, rule{form: isOffset, offset: m.scaled(r.Uleb())})
	case 0x15: // DW_CFA_val_offset_sf
		return m.set(reg, rule{form: isOffset, offset: r.Sleb() * m.f.cie.dataAlign})
	case 0x16: // DW_CFA_val_expression
		return m.set(reg, rule{form: isExpr, expr: r.block()})
	case 0x2f: // DW_CFA_GNU_negative_offset_extended
		return m.set(reg, rule{form: atOffset, offset: -m.scaled(r.Uleb())})
	}
	return false
}

func (m *machine) scaled(n uint64) int64 { return int64(n) * m.f.cie.dataAlign }

// set sets a rule. Vector registers, with higher numbers, are not needed.
func (m *machine) set(reg uint64, to rule) bool {
	if reg < uint64(Registers) {
		m.now.regs[reg] = to
	}
	return true
}

func (m *machine) restore(reg uint64) bool {
	if reg < uint64(Registers) {
		m.now.regs[reg] = m.initial.regs[reg]
	}
	return true
}

func (m *machine) remember() bool {
	if m.depth == maxStates {
		return false
	}
	m.steps -= stateSteps
	m.stack[m.depth] = m.now
	m.depth++
	return true
}

func (m *machine) recall() bool {
	if m.depth == 0 {
		return false
	}
	m.steps -= stateSteps
	m.depth--
	m.now = m.stack[m.depth]
	return true
}

// block reads a length and as many bytes.
func (r *reader) block() []byte {
	n := r.Uleb()
	if n > maxExpr {
		r.Fail(errExpr)
		return nil
	}
	return r.Bytes(n)
}
