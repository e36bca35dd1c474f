package rewrite

import "slices"

// Kind says how a function is instrumented.
type Kind uint8

const (
	// Bare functions have no safe points: they have no loops and call nothing.
	// Their own time is found at the next safe point of their callers.
	Bare Kind = iota
	// Polled functions have safe points. With Options.Marks their activations are
	// numbered.
	Polled
)

// plan is what a scan of the whole code tells before the first byte is written.
type plan struct {
	functions  []traits // by defined function
	inside     []bool   // by function: referred to from inside the module
	inCode     []bool   // by function: ref.func in code refers to it
	indirect   []bool   // by type: of functions that are called indirectly
	shares     bool     // functions may be called through tables of other modules
	loops      loopScan // of the function under work
	referenced []bool   // by function: inCode, or an element segment or a global refers to it
}

// traits of a function's code.
type traits struct {
	kind  Kind
	calls bool
	tail  bool // makes tail calls
	loopTraits
}

// pollsAtExit: a function that is sampled at its exits, too. All of its loops are tight,
// as a rule over before they poll, and its callees poll for it nowhere.
func (t *traits) pollsAtExit() bool { return len(t.tight) > 0 && !t.calls }

// makePlan decodes all of the code once.
func makePlan(m *original) (*plan, *RefusedError) {
	p := &plan{
		functions:  make([]traits, len(m.bodies)),
		inside:     make([]bool, m.spaces.functions),
		inCode:     make([]bool, m.spaces.functions),
		indirect:   make([]bool, m.spaces.types),
		referenced: make([]bool, m.spaces.functions),
	}
	for _, section := range []byte{sectionGlobal, sectionElement} {
		for _, ref := range m.references[section] {
			p.inside[ref.function], p.referenced[ref.function] = true, true
		}
	}
	for i := range m.bodies {
		if err := p.scan(m, i); err != nil {
			return nil, err
		}
	}
	p.shares = m.sharesTables || len(m.references[sectionGlobal]) > 0 || slices.Contains(p.inCode, true)
	return p, nil
}

// scan decodes a function's code and notes its traits.
func (p *plan) scan(m *original, i int) *RefusedError {
	d, _ := m.body(i)
	t := &p.functions[i]
	p.loops.begin()
	for d.next() {
		p.loops.next(&d)
		switch d.op {
		case opCall, opReturnCall:
			t.calls, p.inside[d.index] = true, true
		case opCallIndirect, opReturnCallIndirect:
			t.calls, p.indirect[d.index] = true, true
		case opRefFunc:
			p.inside[d.index], p.inCode[d.index], p.referenced[d.index] = true, true, true
		}
		t.tail = t.tail || d.op == opReturnCall || d.op == opReturnCallIndirect
	}
	t.loopTraits = p.loops.traits()
	if t.loops || t.calls {
		t.kind = Polled
	}
	return d.done()
}

// maxLocals bounds a function's locals, for which wazero allocates memory one by
// one. It is the limit of the WebAssembly JavaScript Interface, section 7.
const maxLocals = 50_000

// locals are the declared locals of a function.
type locals struct {
	groups extent // the declarations, behind their count
	count  uint32 // of declarations
	total  uint64 // of locals, parameters included
}

// body gives a decoder that stands at a function's first instruction.
func (m *original) body(i int) (decoder, locals) {
	b := m.bodies[i]
	d := decoder{reader: reader{data: m.data[:b.end], at: b.start}, spaces: &m.spaces}
	l := locals{total: uint64(len(m.types[m.functionTypes[m.importedFunctions+i]].params))}
	l.count = uint32(d.reader.count(2))
	l.groups.start = d.at
	for n := l.count; n > 0 && d.err == nil; n-- {
		l.total += uint64(d.u32())
		d.valueType()
	}
	l.groups.end = d.at
	if l.total > maxLocals {
		d.fail(b.start, "%d locals, more than %d", l.total, maxLocals)
	}
	d.locals = l.total
	return d, l
}
