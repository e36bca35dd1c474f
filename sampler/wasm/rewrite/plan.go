package rewrite

// Kind says how a function is instrumented.
type Kind uint8

const (
	// Bare functions have no safe points: they have no loops and call nothing.
	// Their own time is found at the next safe point of their callers.
	Bare Kind = iota
	// Polled functions have safe points, and call nothing but bare functions: at
	// a sample only the innermost activation can be theirs. It is not in Depth.
	Polled
	// Counted functions have safe points, and their activations are in Depth.
	Counted
)

// plan is what a scan of the whole code tells before the first byte is written.
type plan struct {
	functions []traits // by defined function
	inside    []bool   // by function: referred to from inside the module
	inCode    []bool   // by function: ref.func in code refers to it
}

// traits of a function's code.
type traits struct {
	kind     Kind
	loops    bool
	direct   bool  // calls, directly, a defined function
	outward  bool  // calls an import, or through a table
	indirect bool  // calls through a table
	tail     bool  // makes tail calls
	headLoop bool  // every entry runs straight to a loop's head
	tight    []int // offsets in the module of the tight loops
}

// makePlan decodes all of the code once.
func makePlan(m *original) (*plan, *RefusedError) {
	p := &plan{
		functions: make([]traits, len(m.bodies)),
		inside:    make([]bool, m.spaces.functions),
		inCode:    make([]bool, m.spaces.functions),
	}
	for _, section := range []byte{sectionGlobal, sectionElement} {
		for _, ref := range m.references[section] {
			p.inside[ref.function] = true
		}
	}
	for i := range m.bodies {
		if err := p.scan(m, i); err != nil {
			return nil, err
		}
	}
	p.classify(m)
	return p, nil
}

// scan decodes a function's code and notes its traits.
func (p *plan) scan(m *original, i int) *RefusedError {
	d, _ := m.body(i)
	t := &p.functions[i]
	straight := true
	var loops loopScan
	for d.next() {
		loops.next(&d)
		switch d.op {
		case opLoop:
			t.loops = true
			t.headLoop = t.headLoop || straight
		case opCall, opReturnCall:
			p.inside[d.index] = true
			if int(d.index) < m.importedFunctions {
				t.outward = true
			} else {
				t.direct = true
			}
		case opCallIndirect, opReturnCallIndirect:
			t.indirect, t.outward = true, true
		case opRefFunc:
			p.inside[d.index], p.inCode[d.index] = true, true
		}
		t.tail = t.tail || d.op == opReturnCall || d.op == opReturnCallIndirect
		straight = straight && isStraight(d.op)
	}
	t.tight = loops.tight
	return d.done()
}

// isStraight: execution goes on with the next instruction, inside the function.
func isStraight(op byte) bool {
	return op == opBlock || op > opReturnCallIndirect
}

// classify gives every function its kind.
func (p *plan) classify(m *original) {
	for i := range p.functions {
		t := &p.functions[i]
		if t.loops || t.direct || t.outward {
			t.kind = Counted
		}
	}
	for i := range p.functions {
		t := &p.functions[i]
		if t.kind == Counted && !t.outward && (!t.direct || p.callsOnlyBare(m, i)) {
			t.kind = Polled
		}
	}
}

func (p *plan) callsOnlyBare(m *original, i int) bool {
	d, _ := m.body(i)
	for d.next() {
		if d.op != opCall && d.op != opReturnCall {
			continue
		}
		if p.functions[int(d.index)-m.importedFunctions].kind != Bare {
			return false
		}
	}
	return true
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
