package gosym

import "encoding/binary"

// LogicalFrame is one call as the source has it: a physical function, or a
// function that was inlined.
type LogicalFrame struct {
	Name      string // with the type arguments of a generic spelt out
	File      string // empty where unknown
	StartLine int32  // line of the declaration; 0 where unknown
	Line      int32  // line executed or, for a caller, of the call; 0 where unknown
	ID        FuncID
}

// Tables of inlining, Go 1.18 to 1.27 (internal/abi.PCDATA_InlTreeIndex, FUNCDATA_InlTree).
const (
	pcdataInlTree   = 2
	funcdataInlTree = 3
)

// inlinedSize returns the bytes of a runtime.inlinedCall. Go 1.18 and 1.19 have parent, funcID, pad, file, line,
// nameOff, parentPc; later versions funcID, pad, nameOff, parentPc, startLine.
func (f form) inlinedSize() uint64 {
	if f == form118 {
		return 20
	}
	return 16
}

// maxInlined bounds the logical frames of one program counter, against inline
// trees that go in a circle.
const maxInlined = 256

// inlinedCall is one record of an inline tree.
type inlinedCall struct {
	rawID     uint8
	nameOff   int32
	parentPC  uint32 // of the call, from the physical function's entry
	startLine int32  // 0 where the form has none
}

func (m *module) inlinedCall(tree uint32, i int32) (inlinedCall, bool) {
	size := m.form.inlinedSize()
	at := uint64(tree) - uint64(m.inlineOff) + uint64(i)*size
	if tree < m.inlineOff || at+size > uint64(len(m.inline)) {
		return inlinedCall{}, false
	}
	return m.form.inlinedCall(m.inline[at : at+size]), true
}

// inlinedCall decodes inlinedSize bytes. The file and line of a call are also those of the instruction at
// parentPC, so they are not read.
func (f form) inlinedCall(b []byte) inlinedCall {
	if f == form118 {
		return inlinedCall{
			rawID:    b[2],
			nameOff:  int32(binary.LittleEndian.Uint32(b[12:])),
			parentPC: binary.LittleEndian.Uint32(b[16:]),
		}
	}
	return inlinedCall{
		rawID:     b[0],
		nameOff:   int32(binary.LittleEndian.Uint32(b[4:])),
		parentPC:  binary.LittleEndian.Uint32(b[8:]),
		startLine: int32(binary.LittleEndian.Uint32(b[12:])),
	}
}

// expand appends the logical frames at pc of the physical function r,
// innermost first, wrappers included. pc is the address of an instruction, not a
// return address. Where the budget ends, calls that were inlined are left out.
func (m *module) expand(b *budget, r record, pc uint64, dst []LogicalFrame) []LogicalFrame {
	tree, inlined := m.funcdata(r, funcdataInlTree)
	for range maxInlined {
		if !inlined {
			break
		}
		i := m.pcdata(b, r, pcdataInlTree, pc)
		if i < 0 {
			break
		}
		call, ok := m.inlinedCall(tree, i)
		if !ok {
			break
		}
		dst = append(dst, m.logical(b, r, pc, call.nameOff, call.startLine, call.rawID))
		pc = r.entry + uint64(call.parentPC)
	}
	return append(dst, m.logical(b, r, pc, r.nameOff, r.startLine, r.rawID))
}

func (m *module) logical(b *budget, r record, pc uint64, nameOff, startLine int32, rawID uint8) LogicalFrame {
	return LogicalFrame{
		Name: m.name(nameOff), File: m.file(b, r, pc),
		StartLine: startLine, Line: m.line(b, r, pc), ID: m.ids[rawID],
	}
}
