package rewrite

import (
	"bytes"
)

// A face is how a function of the original looks to its callers in the rewritten module.
type face struct {
	typ        uint32 // the type that it has now
	numbered   bool   // its activations are numbered
	registered bool   // its last parameter is the number; else its callers set Depth
	stub       uint32 // the target of its poll's tail call; 0: the poll comes back
	enter      uint32 // the callee of a poll that comes back; 0: the host
	exit       uint32 // the target of the tail calls of its polls at exits, or 0
	reference  uint32 // its replacement in references of the module; 0: itself
}

// A catch is the code before an indirect call of a type.
type catch struct {
	block    uint32 // the type of a block that keeps the call's operands
	function uint32 // called with the operands, the site and the number
}

// planFaces decides how functions are called. It runs after planEntries: functions with
// listeners of their own keep their types.
func (a *assembly) planFaces() {
	for i := range a.layout.faces {
		function := uint32(a.module.importedFunctions + i)
		f := &a.layout.faces[i]
		f.typ = a.module.functionTypes[function]
		if a.plan.functions[i].kind != Bare {
			f.numbered = a.options.Marks
			a.planNumber(function, f)
			a.planPoll(function, f)
		}
		if f.numbered && a.plan.referenced[function] && a.plan.shares {
			f.reference = a.add(addedFunction{addedReference, function, f.typ})
		}
	}
}

// planNumber decides how a function gets its number. Functions that are called
// through tables get none as a parameter, for their callers go by the type. With
// Options.Exact the host reads Depth at every call.
func (a *assembly) planNumber(function uint32, f *face) {
	if !f.numbered || a.options.Exact || a.listens(function) || a.plan.referenced[function] {
		return
	}
	if typ := a.derived(f.typ, true, false); a.layout.fits[typ] {
		f.typ, f.registered = typ, true
	}
}

// listens reports whether a host listens on a function itself. Such a listener gets no
// return of a function that has made a tail call.
func (a *assembly) listens(function uint32) bool {
	return a.entries[function] == a.layout.function(function)
}

// maxHanded bounds the parameters that a poll at an entry hands on. Most parameters
// beyond it are not in registers, and would make the called functions longer.
const maxHanded = 16

// planPoll decides how a function's poll at its entry calls the host. The best poll does
// not come back: then wazevo need not keep any values for that case.
func (a *assembly) planPoll(function uint32, f *face) {
	silent := a.plan.functions[int(function)-a.module.importedFunctions].kind == Silent
	switch {
	case a.options.TailCalls && f.numbered && !a.options.Exact && a.layout.fits[f.typ] && !a.listens(function):
		if !silent {
			a.layout.enter = a.shared(addedEnter, a.typeOf([]byte{typeI32}, []byte{typeI32}))
			f.stub = a.add(addedFunction{addedStub, function, f.typ})
		}
		a.planExit(function, f)
	case silent:
	case a.options.MultiValue && len(a.layout.types[f.typ].params) <= maxHanded:
		f.enter = a.shared(addedEnter, a.derived(f.typ, f.numbered && !f.registered, true))
	}
}

// planExit decides whether a function polls at its exits. Such polls find the time after
// its last safe point in the function.
func (a *assembly) planExit(function uint32, f *face) {
	i := int(function) - a.module.importedFunctions
	if t := &a.plan.functions[i]; t.hush || !t.loops && a.module.isShort(i) {
		return
	}
	results := a.layout.types[f.typ].results
	typ := a.typeOf(append(bytes.Clone(results), typeI32), results)
	if !a.layout.fits[typ] || len(results) > 0 && !a.options.MultiValue {
		return
	}
	f.exit = a.add(addedFunction{addedExit, function, typ})
	if _, ok := a.layout.resultBlocks[string(results)]; !ok && len(results) > 0 {
		a.layout.resultBlocks[string(results)] = int64(a.typeOf(results, results))
	}
}

// planCatches decides which function is called before indirect calls. It gets their
// operands, and returns them.
func (a *assembly) planCatches() {
	a.layout.catches = make([]catch, len(a.module.types))
	for i, indirect := range a.plan.indirect {
		if !indirect || !a.options.Calls || !a.options.MultiValue {
			continue
		}
		operands := a.derived(uint32(i), true, true)
		t := a.layout.types[operands]
		typ := a.typeOf(append(bytes.Clone(t.params), typeI32, typeI32), t.results)
		a.layout.catches[i] = catch{operands, a.shared(addedCatch, typ)}
	}
}

// shared returns an added function for all users with the same type.
func (a *assembly) shared(kind addedKind, typ uint32) uint32 {
	f := addedFunction{kind: kind, typ: typ}
	index, ok := a.sharing[f]
	if !ok {
		index = a.add(f)
		a.sharing[f] = index
	}
	return index
}

// derivation is how a type is made from another.
type derivation struct {
	from          uint32
	number, again bool
}

// derived returns a type with a number as one more parameter, or with its parameters
// again as results.
func (a *assembly) derived(from uint32, number, again bool) uint32 {
	d := derivation{from, number, again}
	if typ, ok := a.derivations[d]; ok {
		return typ
	}
	t := a.layout.types[from]
	if number {
		t.params = append(bytes.Clone(t.params), typeI32)
	}
	if again {
		t.results = t.params
	}
	typ := a.typeOf(t.params, t.results)
	a.derivations[d] = typ
	return typ
}

// An addedFunction comes after the original's functions.
type addedFunction struct {
	kind     addedKind
	function uint32 // of the original, for kinds that call one
	typ      uint32
}

type addedKind uint8

const (
	addedThunk     addedKind = iota // calls an exported function that is also called inside
	addedReference                  // calls a referenced function, for other modules, too
	addedStub                       // polls at the entry of a function, and enters it again
	addedExit                       // polls at an exit of a function, and returns
	addedEnter                      // polls at entries call it
	addedCatch                      // is called before indirect calls
)

// add gives an added function its index.
func (a *assembly) add(f addedFunction) uint32 {
	a.added = append(a.added, f)
	return a.layout.function(uint32(a.module.spaces.functions + len(a.added) - 1))
}

// body writes an added function.
func (a *assembly) body(f addedFunction) []byte {
	l := &a.layout
	params := uint32(len(l.types[f.typ].params))
	var b []byte
	switch f.kind {
	case addedThunk:
		b = a.callThrough([]byte{0}, f.function, params)
	case addedReference:
		// The module's own callers set Depth before each call. Others may not.
		b = local(l.get([]byte{1, 1, typeI32}, globalDepth), opLocalSet, params)
		b = local(a.callThrough(b, f.function, params), opLocalGet, params)
		b = l.set(b, globalDepth)
	case addedStub:
		b = a.stubBody(f, params)
	case addedExit:
		b = constant([]byte{0}, ReasonLoop)
		b = appendParams(l.callSample(local(b, opLocalGet, params-1)), params-1)
	case addedEnter:
		b = l.enterBody(params)
	case addedCatch:
		b = local([]byte{0}, opLocalGet, params-2)
		b = local(local(b, opLocalGet, params-3), opLocalGet, params-1)
		b = appendParams(l.callHost(b), params-2)
	}
	return append(b, opEnd)
}

// stubBody: enter(number); return f(…), with polled set in the number
func (a *assembly) stubBody(f addedFunction, params uint32) []byte {
	l := &a.layout
	b := []byte{0} // no locals
	if l.face(f.function).registered {
		b = l.appendPolled(local(appendParams(b, params-1), opLocalGet, params-1))
	} else {
		b = l.appendPolled(append(constant(l.get(b, globalDepth), 1), opI32Add))
		b = l.set(append(constant(b, 1), opI32Sub), globalDepth)
		b = appendParams(b, params)
	}
	return appendU32(append(b, opReturnCall), l.function(f.function))
}

// callThrough calls a function with the added function's own parameters.
func (a *assembly) callThrough(b []byte, function, params uint32) []byte {
	l := &a.layout
	b = appendParams(b, params)
	if l.face(function).registered {
		b = append(constant(l.get(b, globalDepth), 1), opI32Add)
	}
	return appendU32(append(b, opCall), l.function(function))
}

// appendParams pushes a function's first n parameters.
func appendParams(b []byte, n uint32) []byte {
	for i := range n {
		b = local(b, opLocalGet, i)
	}
	return b
}
