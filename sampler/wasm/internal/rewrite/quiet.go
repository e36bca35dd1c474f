package rewrite

// Quiet are the polls that a function goes without.
type Quiet struct {
	// Entry: the function has no poll at its entry. It still has one if hosts call it, or if it
	// belongs to a cycle of calls that would have no safe point.
	Entry bool
	// Exit: the function has no polls at its exits.
	Exit bool
}

// quieten takes polls away. A function without calls and loops that goes without all of them is
// Bare. A function that may call itself through functions without polls at their entries keeps its
// own: every cycle of calls must have a safe point.
func (p *plan) quieten(m *original, quiet func([][]uint32) []Quiet) {
	called := p.entries(m)
	s := silence{plan: p, imported: m.importedFunctions, callees: make(map[int][]int)}
	callees, exits := make([][]int, len(p.functions)), make([][]uint32, len(p.functions))
	for i := range p.functions {
		if p.functions[i].kind == Polled {
			callees[i], exits[i] = m.leaving(i)
		}
	}
	for i, q := range quiet(exits) {
		t := &p.functions[i]
		if t.kind != Polled {
			continue
		}
		t.hush = q.Exit
		if !q.Entry || called[m.importedFunctions+i] {
			continue
		}
		switch {
		case !t.calls && !t.loops && q.Exit:
			t.kind = Bare
		case !t.calls || !s.closes(i, callees[i]):
			t.kind = Silent
		}
	}
}

// entries are the functions that hosts call.
func (p *plan) entries(m *original) map[int]bool {
	called := make(map[int]bool)
	for _, e := range m.exports {
		called[int(e.function)] = true
	}
	if !m.start.absent() {
		called[int(m.start.function)] = true
	}
	return called
}

// leaving returns the defined functions that a function calls directly, and the positions of its
// exits.
func (m *original) leaving(i int) (callees []int, exits []uint32) {
	d, _ := m.body(i)
	for d.next() {
		switch own := int(d.index) - m.importedFunctions; {
		case (d.op == opCall || d.op == opReturnCall) && own >= 0:
			callees = append(callees, own)
		case d.op == opReturn, d.op == opEnd && d.nesting < 0:
			exits = append(exits, uint32(d.start-m.bodies[i].start))
		}
	}
	return callees, exits
}

// silence are the calls among silent functions. An indirect call may reach any function that is in
// a table.
type silence struct {
	plan     *plan
	imported int
	callees  map[int][]int // of silent functions that call
}

// anyInTable stands for the functions in tables.
const anyInTable = -1

// closes reports whether a function that calls others would close a cycle of silent functions. If
// it would not, it becomes one of them.
func (s *silence) closes(i int, callees []int) bool {
	if s.plan.functions[i].table {
		callees = append(callees, anyInTable)
	}
	s.callees[i] = callees
	seen := make(map[int]bool)
	if s.reaches(i, i, seen) {
		delete(s.callees, i)
		return true
	}
	return false
}

// reaches reports whether calls of silent functions lead from one to another.
func (s *silence) reaches(from, to int, seen map[int]bool) bool {
	for _, callee := range s.next(from) {
		switch {
		case callee == to:
			return true
		case callee != anyInTable && s.callees[callee] == nil, seen[callee]:
			continue
		}
		seen[callee] = true
		if s.reaches(callee, to, seen) {
			return true
		}
	}
	return false
}

// next returns what a silent function, or any in a table, may call.
func (s *silence) next(from int) []int {
	if from != anyInTable {
		return s.callees[from]
	}
	var all []int
	for i := range s.callees {
		if s.plan.referenced[s.imported+i] {
			all = append(all, i)
		}
	}
	return all
}
