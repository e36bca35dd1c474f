package rewrite

import "bytes"

// A face is how a function of the original looks to its callers in the rewritten
// module.
type face struct {
	typ        uint32 // the type that it has now
	numbered   bool   // its activations are numbered
	registered bool   // its last parameter is the number; else its callers set Depth
	stub       uint32 // what its poll makes a tail call of; 0: the poll comes back
	enter      uint32 // what such a poll calls; 0: the host
	exit       uint32 // what its polls at exits make a tail call of; 0: none
	reference  uint32 // what stands for it where the module refers to it; 0: itself
}

// A catch is what stands in front of an indirect call of a type.
type catch struct {
	block    uint32 // the type of a block that leaves the call's operands as they are
	function uint32 // what is called with these, the site and the number
}

// planFaces decides how functions are called. It comes behind planEntries: functions
// with listeners of their own keep their types.
func (a *assembly) planFaces() {
	for i := range a.layout.faces {
		function := uint32(a.module.importedFunctions + i)
		f := &a.layout.faces[i]
		f.typ = a.module.functionTypes[function]
		if a.plan.functions[i].kind == Polled {
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

// listens tells whether a host listens on a function itself: it is told of no return
// if the function has made a tail call.
func (a *assembly) listens(function uint32) bool {
	return a.entries[function] == a.layout.function(function)
}

// maxHanded is how many parameters a poll at an entry hands on at most. More are not
// in registers, most of them, and would make functions that are called so much longer.
const maxHanded = 16

// planPoll decides how a function's poll at its entry calls the host. Best is what does
// not come back: then wazevo need not keep anything for that case.
func (a *assembly) planPoll(function uint32, f *face) {
	switch {
	case a.options.TailCalls && f.numbered && !a.options.Exact && a.layout.fits[f.typ] && !a.listens(function):
		a.layout.enter = a.shared(addedEnter, a.typeOf([]byte{typeI32}, []byte{typeI32}))
		f.stub = a.add(addedFunction{addedStub, function, f.typ})
		a.planExit(function, f)
	case a.options.MultiValue && len(a.layout.types[f.typ].params) <= maxHanded:
		f.enter = a.shared(addedEnter, a.derived(f.typ, f.numbered && !f.registered, true))
	}
}

// planExit decides whether a function polls at its exits, so that what it has executed
// behind its last safe point is found in it.
func (a *assembly) planExit(function uint32, f *face) {
	i := int(function) - a.module.importedFunctions
	if !a.plan.functions[i].loops && a.module.isShort(i) {
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

// planCatches decides what is called in front of indirect calls: with their
// operands, which it returns.
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

// shared returns an added function that all with the same type share.
func (a *assembly) shared(kind addedKind, typ uint32) uint32 {
	f := addedFunction{kind: kind, typ: typ}
	index, ok := a.sharing[f]
	if !ok {
		index = a.add(f)
		a.sharing[f] = index
	}
	return index
}

// derivation is how a type is made of another.
type derivation struct {
	from          uint32
	number, again bool
}

// derived returns a type with a number as one parameter more, or with its
// parameters again as results.
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
