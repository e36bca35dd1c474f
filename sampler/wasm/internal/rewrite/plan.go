package rewrite

import "github.com/ccmapd/ccmapd/sampler/wasm/internal/format"

// Kind says how a function is instrumented.
type Kind uint8

const (
	// Bare functions have no safe points: they are short, have no loops and call nothing.
	// Their own time is found at the next safe point of their callers.
	Bare Kind = iota
	// Polled functions have safe points. With Options.Marks their activations are
	// numbered.
	Polled
	// Silent functions are Polled, but have no poll at their entry, as Options.Quiet asks. Their
	// activations have numbers, and it is unknown whether a sample has seen one of them.
	Silent
)

// plan has the facts of a scan of all code, before the first byte is written.
type plan struct {
	functions  []traits // by defined function
	inside     []bool   // by function: the module itself refers to it
	inCode     []bool   // by function: ref.func in code refers to it
	indirect   []bool   // by type: functions of it are called indirectly
	shares     bool     // other modules may get references to functions
	loops      loopScan // of the current function
	referenced []bool   // by function: inCode, or an element segment or a global refers to it
}

// traits of a function's code.
type traits struct {
	kind  Kind
	calls bool
	tail  bool // makes tail calls
	picks bool // has branches on a condition or a number
	hush  bool // goes without polls at its exits
	table bool // makes indirect calls
	loopTraits
}

// tightLeaf: its loops usually end before they poll, and it calls nothing that polls. It
// polls at its exits, too, or it would get no time of its own.
func (t *traits) tightLeaf() bool { return len(t.tight) > 0 && !t.calls && !t.hush }

// makePlan decodes all of the code once.
func makePlan(m *original) (*plan, *format.Error) {
	p := &plan{
		functions:  make([]traits, len(m.bodies)),
		inside:     make([]bool, m.spaces.functions),
		inCode:     make([]bool, m.spaces.functions),
		indirect:   make([]bool, m.spaces.types),
		referenced: make([]bool, m.spaces.functions),
		shares:     m.sharesTables || len(m.references[format.SectionGlobal]) > 0,
	}
	for _, section := range []byte{format.SectionGlobal, format.SectionElement} {
		for _, ref := range m.references[section] {
			p.inside[ref.function], p.referenced[ref.function] = true, true
		}
	}
	for i := range m.bodies {
		if err := p.scan(m, i); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// scan decodes a function's code and notes its traits.
func (p *plan) scan(m *original, i int) *format.Error {
	d, _ := m.body(i)
	t := &p.functions[i]
	p.loops.begin()
	for d.next() {
		p.loops.next(&d)
		switch d.op {
		case opCall, opReturnCall:
			t.calls, p.inside[d.index] = true, true
		case opCallIndirect, opReturnCallIndirect:
			t.calls, t.table, p.indirect[d.index] = true, true, true
		case opRefFunc:
			p.inside[d.index], p.inCode[d.index], p.referenced[d.index] = true, true, true
			p.shares = true
		case opTableGet:
			p.shares = true
		case opIf, opBrIf, opBrTable:
			t.picks = true
		}
		t.tail = t.tail || d.op == opReturnCall || d.op == opReturnCallIndirect
	}
	t.loopTraits = p.loops.traits()
	if t.loops || t.calls || !m.isShort(i) {
		t.kind = Polled
	}
	return d.Done()
}

// leastPolled is the least length, in bytes of code, of a function that polls without
// loops and calls, or at its exits without loops. A shorter function executes little in
// between, and a poll costs as much: with polls at all exits a program of small methods
// was 13 % slower.
const leastPolled = 64

func (m *original) isShort(i int) bool { return m.bodies[i].end-m.bodies[i].start < leastPolled }

// maxLocals bounds a function's locals: wazero allocates memory for each of them. It is
// the limit of the WebAssembly JavaScript Interface, section 7.
const maxLocals = 50_000

// locals are the declared locals of a function.
type locals struct {
	groups extent // the declarations, after their count
	count  uint32 // of declarations
	total  uint64 // of locals, parameters included
}

// body returns a decoder at a function's first instruction.
func (m *original) body(i int) (decoder, locals) {
	b := m.bodies[i]
	d := decoder{Reader: format.Reader{Data: m.data[:b.end], At: b.start}, spaces: &m.spaces}
	l := locals{total: uint64(len(m.types[m.functionTypes[m.importedFunctions+i]].params))}
	l.count = uint32(d.Reader.Count(2))
	l.groups.start = d.At
	for n := l.count; n > 0 && d.Err == nil; n-- {
		l.total += uint64(d.U32())
		d.ValueType()
	}
	l.groups.end = d.At
	if l.total > maxLocals {
		d.Fail(b.start, "%d locals, more than %d", l.total, maxLocals)
	}
	d.locals = l.total
	return d, l
}
