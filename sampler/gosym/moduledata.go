package gosym

import (
	"encoding/binary"
	"fmt"
)

// moduledata is what is needed of runtime.moduledata.
type moduledata struct {
	addr                                    uint64
	header                                  uint64 // address of the pcHeader, the start of the pclntab
	names, cutab, files, pctab, funcs, ftab slice
	minpc, maxpc                            uint64
	text, gofunc                            uint64
	textSections                            uint64
	next                                    uint64 // address of the next moduledata; 0 for none
}

// slice is a Go slice header's address and length; the length in elements.
type slice struct{ addr, len uint64 }

// moduleLayout gives offsets in runtime.moduledata, bytes. Up to text they are
// the same in Go 1.20 to 1.26.
type moduleLayout struct{ gofunc, textsectmap, next, size int }

// moduleLayoutOf returns the layout for Go 1.minor, that of the newest for a
// version that is unknown (0) or newer.
//
//	1.20        bad stands behind typemap
//	1.21–1.22   inittasks behind pkghashes
//	1.23–1.25   bad beside hasmain
//	1.26        epclntab behind gofunc
func moduleLayoutOf(minor int) moduleLayout {
	switch {
	case minor == 0 || minor >= 26:
		return moduleLayout{gofunc: 320, textsectmap: 336, next: 584, size: 592}
	case minor <= 20:
		return moduleLayout{gofunc: 320, textsectmap: 328, next: 560, size: 568}
	case minor <= 22:
		return moduleLayout{gofunc: 320, textsectmap: 328, next: 584, size: 592}
	default:
		return moduleLayout{gofunc: 320, textsectmap: 328, next: 576, size: 584}
	}
}

// readModuledata reads the moduledata at an address, unchecked.
func readModuledata(mem memory, addr uint64, l moduleLayout) (moduledata, error) {
	b := make([]byte, l.size)
	if err := mem.readAt(b, addr); err != nil {
		return moduledata{}, err
	}
	word := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	list := func(at int) slice { return slice{word(at), word(at + 8)} }
	return moduledata{
		addr: addr, header: word(0),
		names: list(8), cutab: list(32), files: list(56), pctab: list(80), funcs: list(104), ftab: list(128),
		minpc: word(160), maxpc: word(168), text: word(176),
		gofunc: word(l.gofunc), textSections: word(l.textsectmap + 8), next: word(l.next),
	}, nil
}

// Magic numbers of a pclntab (internal/abi.PCLnTabMagic).
const (
	magicGo12  = 0xfffffffb
	magicGo116 = 0xfffffffa
	magicGo118 = 0xfffffff0
	magicGo120 = 0xfffffff1
)

// pcHeaderSize is the size of runtime.pcHeader, bytes.
const pcHeaderSize = 72

// pcHeader is what is needed of runtime.pcHeader. Its textStart is not: Go 1.26
// leaves it 0.
type pcHeader struct {
	quantum uint8
	nfunc   uint64
}

func readPCHeader(mem memory, addr uint64) (pcHeader, error) {
	b := make([]byte, pcHeaderSize)
	if err := mem.readAt(b, addr); err != nil {
		return pcHeader{}, err
	}
	return parsePCHeader(b)
}

func parsePCHeader(b []byte) (pcHeader, error) {
	switch magic := binary.LittleEndian.Uint32(b); magic {
	case magicGo120:
	case magicGo118:
		return pcHeader{}, fmt.Errorf("program counter table of Go 1.18 or 1.19, need Go 1.20 or later: %w", ErrUnsupported)
	case magicGo116:
		return pcHeader{}, fmt.Errorf("program counter table of Go 1.16 or 1.17, need Go 1.20 or later: %w", ErrUnsupported)
	case magicGo12:
		return pcHeader{}, fmt.Errorf("program counter table of Go 1.2 to 1.15, need Go 1.20 or later: %w", ErrUnsupported)
	default:
		return pcHeader{}, fmt.Errorf("program counter table with unknown magic %#x: %w", magic, errCorrupt)
	}
	h := pcHeader{quantum: b[6], nfunc: binary.LittleEndian.Uint64(b[8:])}
	if b[4] != 0 || b[5] != 0 || h.quantum != 1 && h.quantum != 2 && h.quantum != 4 {
		return pcHeader{}, fmt.Errorf("program counter table header % x: %w", b[:8], errCorrupt)
	}
	if b[7] != 8 {
		return pcHeader{}, fmt.Errorf("%d-byte pointers, need 8: %w", b[7], ErrUnsupported)
	}
	return h, nil
}
