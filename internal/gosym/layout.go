package gosym

import (
	"fmt"
	"strconv"
	"strings"
)

// Layout gives the offsets of fields in the runtime's g and m, in bytes;
// NoField where a Go version has no such field. Fields of 8 bytes, but for
// GStatus, which has 4.
type Layout struct {
	GStackLo, GStackHi                 int // bounds of the goroutine's stack
	GM                                 int // *m that runs it; 0 where none does
	GSchedSP, GSchedPC, GSchedBP       int // saved when it was switched away
	GSyscallSP, GSyscallPC, GSyscallBP int // of the caller of the system call; SP is 0 outside of one
	GStatus                            int // runtime._Grunning …; bit 0x1000: being scanned
	GID                                int // the runtime's number of the goroutine, from 1
	MG0                                int // *g of the thread's own stack
	MCurG                              int // *g that it runs; 0 for none

	// GLabels points to the labels that pprof.Do gives a goroutine: a map if
	// LabelsAreMap, else a slice. NoField in a layout that is only a guess.
	GLabels      int
	LabelsAreMap bool

	// CgoDepth is no field: it is where runtime.asmcgocall, which calls C on the
	// thread's stack, leaves how far the goroutine's SP is below GStackHi. It
	// counts from SP at that call; the goroutine's address lies 8 bytes above it.
	CgoDepth int
}

// NoField is the offset of a field that does not exist.
const NoField = -1

// The Go versions whose layouts layoutOf knows.
const oldestMinor, newestMinor = 18, 27

// layoutOf returns the layout for Go 1.minor on 64-bit machines, read from the
// DWARF of binaries built by 1.18.10, 1.19.13, 1.20, 1.21.0, 1.22.0, 1.23.0, 1.24.0, 1.25.0,
// 1.26.8 and 1.27.0.
//
//	1.18–1.22   gobuf of 56 bytes, no syscallbp
//	1.23–1.24   g.syscallbp
//	1.25–1.27   gobuf lost ret: 48 bytes
func layoutOf(minor int) (Layout, bool) {
	l := Layout{GStackHi: 8, GM: 48, GSchedSP: 56, GSchedPC: 64}
	l.GLabels, l.LabelsAreMap = labelsOf(minor)
	switch minor {
	case 18, 19, 20, 21, 22:
		l.GSchedBP, l.GSyscallSP, l.GSyscallPC, l.GSyscallBP = 104, 112, 120, NoField
		l.GStatus, l.GID, l.MCurG = 144, 152, 192
		if minor < 22 {
			l.CgoDepth = 40 // below it there is room for Windows' calling convention
		}
	case 23, 24:
		l.GSchedBP, l.GSyscallSP, l.GSyscallPC, l.GSyscallBP = 104, 112, 120, 128
		l.GStatus, l.GID, l.MCurG = 152, 160, 192
	case 25, 26, 27:
		l.GSchedBP, l.GSyscallSP, l.GSyscallPC, l.GSyscallBP = 96, 104, 112, 120
		l.GStatus, l.GID, l.MCurG = 144, 152, 184
	default:
		return Layout{}, false
	}
	return l, true
}

// labelsOf returns where g.labels is, and whether it points to a map. Offsets are from the
// DWARF of binaries built by 1.18.10, 1.19.13, 1.20.14, 1.21.13, 1.22.12, 1.23.12, 1.24.13, 1.25.11, 1.26.8 and
// 1.27.0, the types from runtime/pprof/label.go of these versions.
func labelsOf(minor int) (offset int, isMap bool) {
	switch minor {
	case 18, 19, 20:
		return 360, true
	case 21, 22:
		return 344, true
	case 23:
		return 352, true
	case 25:
		return 344, false
	}
	return 352, false
}

// minorVersion returns the 26 of "go1.26.8", "go1.26-devel_…" or "devel
// go1.26-…"; 0 where there is none.
func minorVersion(version string) int {
	_, rest, ok := strings.Cut(version, "go1.")
	if !ok {
		return 0
	}
	end := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
	if end >= 0 {
		rest = rest[:end]
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return 0
	}
	return n
}

// maxStruct bounds the offsets of fields, bytes.
const maxStruct = 1 << 16

// layoutFromDWARF reads the layout of a Go version that layoutOf does not know.
func layoutFromDWARF(b *budget, f *elfFile) (Layout, error) {
	abbrevs, info := f.section(".debug_abbrev"), f.section(".debug_info")
	if abbrevs == nil || info == nil {
		return Layout{}, fmt.Errorf("no debug information: %w", ErrUnsupported)
	}
	w := &structWalk{budget: b, fields: map[string]map[string]uint64{
		"runtime.g": nil, "runtime.m": nil, "runtime.gobuf": nil, "runtime.stack": nil,
	}}
	w.missing = len(w.fields)
	var err error
	if w.abbrevs, err = f.expanded(b, abbrevs); err != nil {
		return Layout{}, fmt.Errorf("read debug information: %w", err)
	}
	entries, err := f.expanded(b, info)
	if err != nil {
		return Layout{}, fmt.Errorf("read debug information: %w", err)
	}
	if err := w.walk(entries); err != nil {
		return Layout{}, fmt.Errorf("read debug information: %w", err)
	}
	return layoutFromStructs(w.fields)
}

func layoutFromStructs(fields map[string]map[string]uint64) (Layout, error) {
	var missing []string
	field := func(typ, name string) int {
		if offset, ok := fields[typ][name]; ok && offset < maxStruct {
			return int(offset)
		}
		missing = append(missing, typ+"."+name)
		return NoField
	}
	stack, sched := field("runtime.g", "stack"), field("runtime.g", "sched")
	l := Layout{
		GStackLo: stack + field("runtime.stack", "lo"), GStackHi: stack + field("runtime.stack", "hi"),
		GM:       field("runtime.g", "m"),
		GSchedSP: sched + field("runtime.gobuf", "sp"), GSchedPC: sched + field("runtime.gobuf", "pc"),
		GSchedBP:   sched + field("runtime.gobuf", "bp"),
		GSyscallSP: field("runtime.g", "syscallsp"), GSyscallPC: field("runtime.g", "syscallpc"),
		GStatus: field("runtime.g", "atomicstatus"), GID: field("runtime.g", "goid"),
		MG0: field("runtime.m", "g0"), MCurG: field("runtime.m", "curg"),
	}
	if len(missing) > 0 {
		return Layout{}, fmt.Errorf("no field %s: %w", strings.Join(missing, ", "), ErrUnsupported)
	}
	l.GSyscallBP = field("runtime.g", "syscallbp")
	l.GLabels = field("runtime.g", "labels")
	return l, nil
}
