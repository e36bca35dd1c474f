package gosym

import (
	"context"
	"slices"

	"github.com/ccmapd/ccmapd/internal/gosym/body"
)

// WaitLayout gives the offsets of the fields of the runtime's g that say how a goroutine waits, in bytes.
type WaitLayout struct {
	Since   int // CLOCK_MONOTONIC, ns, of the end of the marking before the one that found the goroutine waiting; 0: none has
	Reason  int // 1 byte: the index of a text of runtime.waitReason
	Seq     int // 1 byte, g.trackingSeq: it rises whenever the goroutine leaves running
	StartPC int // entry of the goroutine's first function

	// SeqOfCalls says that Seq rises at system calls, too (runtime.entersyscall changes the status by casgstatus).
	SeqOfCalls bool
}

// WaitLayout returns the layout of the program's Go version, read from the DWARF of binaries built by 1.20.14,
// 1.21.13, 1.22.12, 1.23.12, 1.24.13, 1.25.11, 1.26.8 and 1.27.0. It reports false for any other version.
// Nothing here proves it.
func (t *Table) WaitLayout() (WaitLayout, bool) { return waitLayoutOf(minorVersion(t.goVersion)) }

func waitLayoutOf(minor int) (WaitLayout, bool) {
	l := WaitLayout{Since: 168, Reason: 176, Seq: 191, StartPC: 296, SeqOfCalls: minor < 26}
	switch minor {
	case 20:
		l.Seq, l.StartPC = 189, 312
	case 21:
		l.Seq = 188
	case 22, 25:
	case 23, 24:
		l.Since, l.Reason, l.Seq, l.StartPC = 176, 184, 199, 304
	case 26, 27:
		l.StartPC = 304
	default:
		return WaitLayout{}, false
	}
	return l, true
}

// Named returns the functions of the given names. A wrapper has the name of the function that it wraps. It takes
// time for each function of the program, and the error wraps [ErrTooMuch] where the bounds of a load end.
func (t *Table) Named(ctx context.Context, names ...string) (map[string][]Func, error) {
	longest := 0
	for _, name := range names {
		longest = max(longest, len(name))
	}
	found := make(map[string][]Func)
	b, end := beginLoad(newBudget(ctx, t.held), t.delay)
	defer end()
	for _, m := range t.modules {
		for i := range m.nfunc {
			if err := b.work(recordCost); err != nil {
				return nil, err
			}
			r, ok := m.record(i)
			if !ok {
				continue
			}
			if name := cutName(m.names, uint32(r.nameOff), longest+1); slices.Contains(names, name) {
				found[name] = append(found[name], Func{
					Name: name, Entry: r.entry, End: r.end, StartLine: r.startLine, ID: m.ids[r.rawID], Flags: r.flags,
				})
			}
		}
	}
	return found, nil
}

// Outset says how a function calls others: its frame when it does, from SP to its return address, and its direct
// calls, each by the address that it returns to, with the callee.
func (t *Table) Outset(pc uint64) (frame int, calls map[uint64]uint64) {
	const callBytes = 5 // of a direct call (x86 CALL rel32)
	m := t.module(pc)
	if m == nil {
		return 0, nil
	}
	r, ok := m.find(pc)
	if !ok {
		return 0, nil
	}
	t.lookUp(func(b *budget) {
		for _, delta := range m.values(b, r, r.pcsp) {
			frame = max(frame, int(delta))
		}
	})
	code, err := m.code(r)
	if err != nil {
		return 0, nil
	}
	calls = make(map[uint64]uint64)
	for call := range (body.Code{Entry: r.entry, Bytes: code}).Calls() {
		if call.Target != 0 {
			calls[call.At+callBytes] = call.Target
		}
	}
	return frame, calls
}

// References returns the addresses that a function's instructions refer to by their distance: data and code. The
// code comes from the program's file, so that breakpoints do not show in it.
func (t *Table) References(f Func) ([]uint64, error) {
	m := t.module(f.Entry)
	if m == nil {
		return nil, errNoCode
	}
	r, ok := m.find(f.Entry)
	if !ok {
		return nil, errNoCode
	}
	code, err := m.code(r)
	if err != nil {
		return nil, err
	}
	refs := slices.Sorted(body.Code{Entry: r.entry, Bytes: code}.References())
	return slices.Compact(refs), nil
}
