package rewrite

// An addedFunction stands behind those of the original.
type addedFunction struct {
	kind     addedKind
	function uint32 // of the original, of those that call one
	typ      uint32
}

type addedKind uint8

const (
	addedThunk     addedKind = iota // calls an exported function that is also called inside
	addedReference                  // calls a function that is referred to, for other modules, too
	addedStub                       // polls at the entry of a function, and enters it again
	addedExit                       // polls at an exit of a function, and returns
	addedEnter                      // what polls at entries call
	addedCatch                      // what is called in front of indirect calls
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
		// The module's own callers set Depth before each call, others may not.
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

// callThrough calls a function with the parameters that are an added one's own.
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
