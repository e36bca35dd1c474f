package rewrite

import (
	"bytes"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// An assembly collects the sections of the rewritten module.
type assembly struct {
	module  *original
	plan    *plan
	layout  layout
	out     *Module
	options Options

	contents    [format.Sections][]byte // nil: as in the original
	globals     []hostGlobalType        // added
	added       []addedFunction
	exported    map[uint32]bool          // functions of the original
	entries     map[uint32]uint32        // function of the original → its index for callers outside
	known       map[string]uint32        // types, by their encoding
	sharing     map[addedFunction]uint32 // added functions with several users
	derivations map[derivation]uint32
	types       []byte // types to add
	tail        []byte // custom sections at the end
}

func newAssembly(m *original, p *plan, o Options) *assembly {
	a := &assembly{
		module: m, plan: p, options: o, exported: map[uint32]bool{}, entries: map[uint32]uint32{},
		sharing: map[addedFunction]uint32{}, derivations: map[derivation]uint32{},
	}
	a.layout = layout{
		imported:     m.importedFunctions,
		hosts:        len(hostImports(o)),
		announce:     announcements(m, o),
		faces:        make([]face, len(m.bodies)),
		marks:        o.Marks,
		resultBlocks: map[string]int64{},
	}
	a.out = &Module{
		Imported:  m.importedFunctions,
		hosts:     a.layout.hosts,
		Functions: make([]Kind, len(m.bodies)),
		Entries:   map[uint32]uint32{},
		stubs:     map[uint32]place{},
		Announced: a.layout.announce,
		bodies:    make([]extent, len(m.bodies)),
	}
	base := m.sections[format.SectionCode].start
	for i, b := range m.bodies {
		a.out.Functions[i] = p.functions[i].kind
		a.out.bodies[i] = extent{b.start - base, b.end - base}
	}
	a.planGlobals()
	a.planTypes()
	a.planEntries()
	a.planFaces()
	a.planCatches()
	a.out.Total = int(a.layout.function(uint32(m.spaces.functions + len(a.added))))
	return a
}

// copyTypes copies types out of the module.
func copyTypes(types []signature) []signature {
	all := make([]signature, len(types))
	for i, t := range types {
		all[i] = signature{bytes.Clone(t.params), bytes.Clone(t.results)}
	}
	return all
}

// planGlobals gives the added globals their indices, after the module's own.
func (a *assembly) planGlobals() {
	for i, t := range hostGlobals {
		if g := hostGlobal(i); g.added(a.options) {
			a.layout.globals[g] = uint32(a.module.spaces.globals + len(a.globals))
			a.globals = append(a.globals, t)
		}
	}
}

// announcements gives every imported function that may call back a bit.
func announcements(m *original, o Options) []uint64 {
	bits := make([]uint64, m.importedFunctions)
	if o.Announce == nil {
		return bits
	}
	next := 0
	for i, name := range m.importNames {
		if o.Announce(name[0], name[1]) {
			bits[i] = 1 << (next % 64)
			next++
		}
	}
	return bits
}

// planTypes finds or adds the types that the inserted code needs.
func (a *assembly) planTypes() {
	a.known = make(map[string]uint32, len(a.module.types))
	for i, t := range a.module.types {
		a.layout.types = append(a.layout.types, t)
		a.layout.fits = append(a.layout.fits, t.fitsRegisters())
		if key := typeKey(t.params, t.results); !a.isKnown(key) {
			a.known[key] = uint32(i)
		}
	}
	a.layout.sampleType = a.typeOf([]byte{typeI32, typeI32}, nil)
	a.layout.callType = a.typeOf([]byte{typeI32, typeI32, typeI32}, nil)
}

func (a *assembly) isKnown(key string) bool {
	_, ok := a.known[key]
	return ok
}

func typeKey(params, results []byte) string {
	return string(appendBytes(appendBytes(nil, params), results))
}

// typeOf returns the index of a type, and adds a missing type.
func (a *assembly) typeOf(params, results []byte) uint32 {
	key := typeKey(params, results)
	if index, ok := a.known[key]; ok {
		return index
	}
	index := uint32(len(a.layout.types))
	t := signature{params, results}
	a.layout.types = append(a.layout.types, t)
	a.layout.fits = append(a.layout.fits, t.fitsRegisters())
	a.known[key] = index
	a.types = append(append(a.types, 0x60), key...)
	return index
}

// planEntries decides which function stands for a function that is called from outside. A
// function that the module also calls itself gets a thunk, so that the host sees the
// calls from outside only. So does a function that makes tail calls, because wazero
// (v1.12.0) reports no return of it to a listener. Other functions stand for themselves.
func (a *assembly) planEntries() {
	for _, e := range a.module.exports {
		a.exported[e.function] = true
		a.planEntry(e.function)
	}
	if !a.module.start.absent() {
		a.planEntry(a.module.start.function)
	}
}

func (a *assembly) planEntry(function uint32) {
	if _, ok := a.entries[function]; ok {
		return
	}
	index := a.layout.function(function)
	if int(function) >= a.module.importedFunctions {
		if a.plan.inside[function] || a.plan.functions[int(function)-a.module.importedFunctions].tail {
			index = a.add(addedFunction{addedThunk, function, a.module.functionTypes[function]})
		}
		a.out.Entries[index] = function
	}
	a.entries[function] = index
}

// writeCode rewrites all functions and writes the added ones.
func (a *assembly) writeCode() *format.Error {
	w := bodyWriter{module: a.module, plan: a.plan, layout: &a.layout, out: a.out, options: a.options}
	if a.options.Calls {
		w.types = copyTypes(a.module.types)
	}
	if len(a.module.bodies) == 0 {
		return nil
	}
	size := a.module.sections[format.SectionCode]
	w.code = make([]byte, 0, (size.end-size.start)*3/2)
	w.code = appendU32(w.code, uint32(len(a.module.bodies)+len(a.added)))
	for i := range a.module.bodies {
		if err := w.write(i); err != nil {
			return err
		}
		if err := a.bound(w.code); err != nil {
			return err
		}
	}
	a.out.spans = append(a.out.spans, span{uint32(len(w.code)), inserted})
	for _, f := range a.added {
		w.code = appendBytes(w.code, a.body(f))
		if err := a.bound(w.code); err != nil {
			return err
		}
	}
	a.contents[format.SectionCode] = w.code
	return nil
}

// maxGrowth bounds the rewritten code, in multiples of the module. Real code grows by a
// third at most, and code that is all calls to 20 times its length. Only long lists of
// parameters, which one type holds in the original, grow more.
const maxGrowth = 64

// bound refuses the module when its code has become too long, or for 32-bit offsets.
func (a *assembly) bound(code []byte) *format.Error {
	if most := min(maxGrowth*len(a.module.data), 1<<31); len(code) > most {
		return format.Errorf(a.module.sections[format.SectionCode].start, "rewritten code longer than %d bytes", most)
	}
	return nil
}

func (a *assembly) writeSections() {
	m := a.module
	if len(a.types) > 0 {
		a.extend(format.SectionType, len(a.layout.types)-len(m.types), a.types)
	}
	a.writeImports()
	a.writeFunctions()
	a.shift(format.SectionGlobal)
	a.writeGlobals()
	a.writeExports()
	if !m.start.absent() {
		a.contents[format.SectionStart] = appendU32(nil, a.entries[m.start.function])
	}
	a.shift(format.SectionElement)
	a.declare()
}

// content is a section's content so far.
func (a *assembly) content(id byte) []byte {
	if c := a.contents[id]; c != nil {
		return c
	}
	s := a.module.sections[id]
	return a.module.data[s.start:s.end]
}

// extend adds elements to a section that is a vector.
func (a *assembly) extend(id byte, n int, elements []byte) {
	r := format.Reader{Data: a.content(id)}
	count := uint32(0)
	if r.More() {
		count = r.U32()
	}
	b := appendU32(nil, count+uint32(n))
	b = append(b, r.Data[r.At:]...)
	a.contents[id] = append(b, elements...)
}

func (a *assembly) writeImports() {
	var b []byte
	for _, name := range hostImports(a.options) {
		typ := a.layout.sampleType // two numbers, as of point
		if name == CallFunction {
			typ = a.layout.callType
		}
		b = appendName(appendName(b, HostModule), name)
		b = appendU32(append(b, format.KindFunction), typ)
	}
	a.extend(format.SectionImport, a.layout.hosts, b)
}

// hostImports are the names of the added imports, in the order of their indices.
func hostImports(o Options) []string {
	names := []string{SampleFunction, CallFunction}
	if o.Points {
		names = append(names, PointFunction)
	}
	return names
}

// writeFunctions writes the types of all functions.
func (a *assembly) writeFunctions() {
	if len(a.layout.faces)+len(a.added) == 0 {
		return
	}
	b := appendU32(nil, uint32(len(a.layout.faces)+len(a.added)))
	for _, f := range a.layout.faces {
		b = appendU32(b, f.typ)
	}
	for _, f := range a.added {
		b = appendU32(b, f.typ)
	}
	a.contents[format.SectionFunction] = b
}

func (a *assembly) writeGlobals() {
	var b []byte
	for _, g := range a.globals {
		op := byte(opI32Const)
		if g.valueType == typeI64 {
			op = opI64Const
		}
		b = append(b, g.valueType, 1, op) // mutable
		b = append(appendSigned(b, g.initial), opEnd)
	}
	a.extend(format.SectionGlobal, len(a.globals), b)
}

func (a *assembly) writeExports() {
	var refs []reference
	for _, e := range a.module.exports {
		refs = append(refs, reference{e.extent, a.entries[e.function]})
	}
	a.replace(format.SectionExport, refs)
	var b []byte
	for i, g := range a.globals {
		b = append(appendName(b, g.name), format.KindGlobal)
		b = appendU32(b, uint32(a.module.spaces.globals+i))
	}
	a.extend(format.SectionExport, len(a.globals), b)
}

// shift updates the references to functions in a section.
func (a *assembly) shift(id byte) {
	refs := a.module.references[id]
	for i := range refs {
		refs[i].function = a.layout.reference(refs[i].function)
	}
	a.replace(id, refs)
}

// replace writes a section with other function indices.
func (a *assembly) replace(id byte, refs []reference) {
	if len(refs) == 0 {
		return
	}
	s := a.module.sections[id]
	b := make([]byte, 0, s.end-s.start+len(refs))
	at := s.start
	for _, ref := range refs {
		b = append(b, a.module.data[at:ref.start]...)
		b = appendU32(b, ref.function)
		at = ref.end
	}
	a.contents[id] = append(b, a.module.data[at:s.end]...)
}

// declare adds a declarative element segment for the functions that ref.func in code
// refers to, because the original may have declared them by an export alone.
func (a *assembly) declare() {
	var b []byte
	n := 0
	for function, inCode := range a.plan.inCode {
		if inCode && a.exported[uint32(function)] {
			b = appendU32(b, a.layout.reference(uint32(function)))
			n++
		}
	}
	if n > 0 {
		segment := appendU32([]byte{elementNotActive | elementExplicit, 0}, uint32(n))
		a.extend(format.SectionElement, 1, append(segment, b...))
	}
}

// join puts the sections together: the original's in their order, custom sections at
// their places.
func (a *assembly) join() []byte {
	b := append(make([]byte, 0, len(a.module.data)*5/4+1024), format.Header...)
	b = a.appendCustoms(b, 0)
	for _, id := range sectionOrder {
		content := a.content(id)
		if a.contents[id] != nil || !a.module.sections[id].absent() {
			b = appendBytes(append(b, id), content)
		}
		b = a.appendCustoms(b, id)
	}
	return append(b, a.tail...)
}

func (a *assembly) appendCustoms(b []byte, after byte) []byte {
	for _, c := range a.module.customs {
		if c.after == after && !isReplaced(c.name) {
			b = append(b, a.module.data[c.whole.start:c.whole.end]...)
		}
	}
	return b
}
