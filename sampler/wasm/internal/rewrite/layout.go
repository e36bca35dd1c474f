package rewrite

// layout is the arrangement of the rewritten module, and the form of the inserted code.
type layout struct {
	imported int                      // functions of the original; the host's follow them
	hosts    int                      // added imports
	globals  [len(hostGlobals)]uint32 // indices of the added ones
	announce []uint64                 // by imported function: its bit in Announce, or 0
	types    []signature              // of the original, then added ones
	fits     []bool                   // by type: parameters and results are passed in registers
	faces    []face                   // by defined function
	catches  []catch                  // by type
	enter    uint32                   // the added function that stubs call
	marks    bool                     // Options.Marks

	sampleType, callType uint32
	resultBlocks         map[string]int64 // types of blocks that keep results
}

// function gives a function of the original its index in the rewritten module.
func (l *layout) function(index uint32) uint32 {
	if int(index) < l.imported {
		return index
	}
	return index + uint32(l.hosts)
}

// reference gives a function of the original the index for the module's references to it,
// other than calls.
func (l *layout) reference(index uint32) uint32 {
	if r := l.face(index).reference; r != 0 {
		return r
	}
	return l.function(index)
}

// face returns how a function of the original looks to its callers.
func (l *layout) face(index uint32) face {
	if int(index) < l.imported {
		return face{}
	}
	return l.faces[int(index)-l.imported]
}

func (l *layout) get(b []byte, g hostGlobal) []byte {
	return appendU32(append(b, opGlobalGet), l.globals[g])
}

func (l *layout) set(b []byte, g hostGlobal) []byte {
	return appendU32(append(b, opGlobalSet), l.globals[g])
}

func constant(b []byte, v uint32) []byte {
	return appendSigned(append(b, opI32Const), int64(int32(v)))
}

func local(b []byte, op byte, index uint32) []byte {
	return appendU32(append(b, op), index)
}

// rarely begins code that is seldom executed. The condition follows, then thenRarely, the
// code, and an end. A block type other than emptyBlockType passes the values on that were
// pushed before.
//
// It is an if whose code wazevo (v1.12.0) places after all other code, if it does not
// come back, so that a false condition is a branch not taken. Polls at entries with a
// branch taken over the code cost a recursive parser 15 %.
func rarely(b []byte, block int64) []byte {
	b = appendSigned(append(b, opBlock), block)
	return appendSigned(append(b, opBlock), block)
}

func thenRarely(b []byte) []byte { return append(b, opBrIf, 0, opBr, 1, opEnd) }

// appendPoll: if Mark == 0 {} else { sample(reason, number) }
//
// The order of the branches matters. Where branches meet, wazevo (v1.12.0,
// backend/regalloc/regalloc.go, finalizeStartReg) goes on with the registers of the first
// branch. If that is the one with the call, everything is reloaded from the stack after
// every poll, taken or not: twice the cost in an inner loop.
func (l *layout) appendPoll(b []byte, reason, number uint32) []byte {
	b = append(l.get(b, globalMark), opI32Eqz, opIf, emptyBlock, opElse)
	return append(l.callSample(l.number(constant(b, reason), number)), opEnd)
}

// appendAnnounce: if Announce & mask == 0 {} else { sample(reason, number) }
func (l *layout) appendAnnounce(b []byte, mask uint64, reason, number uint32) []byte {
	b = appendSigned(append(l.get(b, globalAnnounce), opI64Const), int64(mask))
	b = append(b, opI64And, opI64Eqz, opIf, emptyBlock, opElse)
	return append(l.callSample(l.number(constant(b, reason), number)), opEnd)
}

// appendExit: if Mark { return exit(…, number) }
//
// The pushed results stay on the stack.
func (l *layout) appendExit(b []byte, results []byte, exit, number uint32) []byte {
	block := int64(emptyBlockType)
	if len(results) > 0 {
		block = l.resultBlocks[string(results)]
	}
	b = l.number(thenRarely(l.get(rarely(b, block), globalMark)), number)
	return append(appendU32(append(b, opReturnCall), exit), opEnd)
}

// number pushes the local's value, or 0 if activations have no numbers.
func (l *layout) number(b []byte, number uint32) []byte {
	if !l.marks {
		return constant(b, 0)
	}
	return local(b, opLocalGet, number)
}

// callSample calls the host, with the pushed values.
func (l *layout) callSample(b []byte) []byte {
	return appendU32(append(b, opCall), uint32(l.imported))
}

// callHost calls the host function call, with the pushed values.
func (l *layout) callHost(b []byte) []byte {
	return appendU32(append(b, opCall), uint32(l.imported)+1)
}

// appendCatch: if Calls { call(site, element, number) }
//
// The operands of the following indirect call stay on the stack.
func (l *layout) appendCatch(b []byte, c catch, site, number uint32) []byte {
	b = thenRarely(l.get(rarely(b, int64(c.block)), globalCalls))
	b = l.number(constant(b, site), number)
	return append(appendU32(append(b, opCall), c.function), opEnd)
}

// enterBody is a function that polls at the entry of another and returns its parameters.
// If there are numbers, the number is the last parameter.
func (l *layout) enterBody(params uint32) []byte {
	return appendParams(l.appendEnter([]byte{0}, params-1), params)
}

// appendPolled: the pushed number = enter(it) | polled
func (l *layout) appendPolled(b []byte) []byte {
	b = appendU32(append(b, opCall), l.enter)
	return append(constant(b, polled), opI32Or)
}

// appendEnter:
//
//	if Visited >= number { Visited = number - 1 }
//	Limit = Visited
//	if Mark { Limit = AllNumbers; sample(ReasonEntry, number) }
//
// The host sets Mark first, then Limit. Mark shows an overwritten Limit, except for a
// short moment of the processor. Then the request is missed until the next mark.
func (l *layout) appendEnter(b []byte, number uint32) []byte {
	if l.marks {
		b = local(l.get(b, globalVisited), opLocalGet, number)
		b = append(b, opI32GeU, opIf, emptyBlock)
		b = append(constant(local(b, opLocalGet, number), 1), opI32Sub)
		b = append(l.set(b, globalVisited), opEnd)
		b = l.set(l.get(b, globalVisited), globalLimit)
	}
	b = append(l.get(b, globalMark), opIf, emptyBlock)
	if l.marks {
		b = l.set(constant(b, AllNumbers), globalLimit)
	}
	return append(l.callSample(l.number(constant(b, ReasonEntry), number)), opEnd)
}

// appendNumber: number = Depth + 1
func (l *layout) appendNumber(b []byte, number uint32) []byte {
	b = append(constant(l.get(b, globalDepth), 1), opI32Add)
	return local(b, opLocalSet, number)
}

// appendU32 appends the shortest unsigned LEB128.
func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

// appendSigned appends the shortest signed LEB128.
func appendSigned(b []byte, v int64) []byte {
	for v < -0x40 || v >= 0x40 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v)&0x7f)
}

func appendBytes(b, vector []byte) []byte {
	return append(appendU32(b, uint32(len(vector))), vector...)
}

func appendName(b []byte, name string) []byte {
	return append(appendU32(b, uint32(len(name))), name...)
}
