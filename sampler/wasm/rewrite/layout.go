package rewrite

// layout is where things stand in the rewritten module, and how the inserted
// code looks.
type layout struct {
	imported int                      // functions of the original; the host's follow them
	globals  [len(hostGlobals)]uint32 // indices of those that are added
	announce []uint64                 // by imported function: its bit in Announce, or 0

	sampleType, callType uint32
	blockTypes           map[string]uint32 // by result types, where there are several
}

// hostFunctions are the imported functions that are added.
const hostFunctions = 2

// function gives a function of the original its index in the rewritten module.
func (l *layout) function(index uint32) uint32 {
	if int(index) < l.imported {
		return index
	}
	return index + hostFunctions
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

// appendPoll: if Mark == 0 {} else { sample(reason) }
//
// The order of the branches matters. Where branches meet, wazevo (v1.12.0,
// backend/regalloc/regalloc.go, finalizeStartReg) goes on with the registers of
// the first one; if that is the one with the call, everything is reloaded from
// the stack behind every poll, taken or not: twice the cost in an inner loop.
func (l *layout) appendPoll(b []byte, reason uint32) []byte {
	b = append(l.get(b, globalMark), opI32Eqz, opIf, emptyBlock, opElse)
	return append(l.callSample(b, reason), opEnd)
}

func (l *layout) callSample(b []byte, reason uint32) []byte {
	return appendU32(append(constant(b, reason), opCall), uint32(l.imported))
}

// appendAnnounce: if Announce & mask == 0 {} else { sample(reason) }
func (l *layout) appendAnnounce(b []byte, mask uint64, reason uint32) []byte {
	b = appendSigned(append(l.get(b, globalAnnounce), opI64Const), int64(mask))
	b = append(b, opI64And, opI64Eqz, opIf, emptyBlock, opElse)
	return append(l.callSample(b, reason), opEnd)
}

// appendCallSite: if Calls == 0 {} else { call(site, element) }
func (l *layout) appendCallSite(b []byte, site, element uint32) []byte {
	b = local(b, opLocalTee, element)
	b = append(l.get(b, globalCalls), opI32Eqz, opIf, emptyBlock, opElse)
	b = local(constant(b, site), opLocalGet, element)
	b = appendU32(append(b, opCall), uint32(l.imported)+1)
	return append(b, opEnd)
}

// appendEnter: Depth++; depth = Depth
func (l *layout) appendEnter(b []byte, depth uint32) []byte {
	b = append(constant(l.get(b, globalDepth), 1), opI32Add)
	return l.set(local(b, opLocalTee, depth), globalDepth)
}

// appendExit: Depth = depth - 1; if Visited > Depth { Visited = Depth }
func (l *layout) appendExit(b []byte, depth uint32) []byte {
	b = append(constant(local(b, opLocalGet, depth), 1), opI32Sub)
	b = l.set(local(b, opLocalTee, depth), globalDepth)
	b = local(l.get(b, globalVisited), opLocalGet, depth)
	b = append(b, opI32GtU, opIf, emptyBlock)
	b = l.set(local(b, opLocalGet, depth), globalVisited)
	return append(b, opEnd)
}

// appendHeal: Depth = depth; if Visited > Depth { Visited = Depth }
func (l *layout) appendHeal(b []byte, depth uint32) []byte {
	return l.appendExitPolled(l.set(local(b, opLocalGet, depth), globalDepth))
}

// appendExitPolled: if Visited > Depth { Visited = Depth }
func (l *layout) appendExitPolled(b []byte) []byte {
	b = l.get(l.get(b, globalVisited), globalDepth)
	b = append(b, opI32GtU, opIf, emptyBlock)
	b = l.set(l.get(b, globalDepth), globalVisited)
	return append(b, opEnd)
}

// appendResultType appends the type of a block with the given results.
func (l *layout) appendResultType(b []byte, results []byte) []byte {
	switch len(results) {
	case 0:
		return append(b, emptyBlock)
	case 1:
		return append(b, results[0])
	}
	return appendSigned(b, int64(l.blockTypes[string(results)]))
}
