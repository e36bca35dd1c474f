package goproc

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// The runtime lists its goroutines in allgs, which has no symbol in a stripped program. But its code refers to it:
//
//	runtime.forEachG              the slice: a length up to its capacity, and descriptors, the first of goroutine 1
//	runtime.allgadd               allgptr, which has the slice's pointer, and allglen, which has its length
//	runtime.waitReason.String     an array of texts: the numbers of reasons differ between versions
//
// (runtime/proc.go and runtime2.go, Go 1.20 to 1.27.) The list only grows, an entry never changes, and the runtime
// frees no descriptor. It stores allgptr before allglen: whoever reads the length first finds as many entries.

// errNotYet: the runtime has not begun, or has changed its list while it was read.
var errNotYet = errors.New("the runtime has no list of goroutines yet")

// errWaits says that a program's goroutines cannot be listed.
func errWaits(format string, args ...any) error {
	return process.As(fmt.Errorf("goroutines at rest cannot be read: "+format, args...), sampler.ErrProgram)
}

// runtimeParts are the addresses that lead to the goroutines.
type runtimeParts struct {
	allgptr, allglen uint64
	reasons          []string // the texts of waits, by their number
	parked           []gosym.Func
	switched         []gosym.Func // coroutines wait there
	own              map[uint64]string
}

const (
	funcForEachG   = "runtime.forEachG"
	funcAllgadd    = "runtime.allgadd"
	funcReason     = "runtime.waitReason.String"
	funcGopark     = "runtime.gopark"
	funcCoroswitch = "runtime.coroswitch"
)

// reasonsOfOwn are the reasons for which goroutines of the runtime wait that each program has
// (runtime/mgcsweep.go, proc.go and mgcscavenge.go, Go 1.20 to 1.27). They prove the layout.
var reasonsOfOwn = map[string][]string{
	"runtime.bgsweep":       {"GC sweep wait"},
	"runtime.forcegchelper": {"force gc (idle)"},
	"runtime.bgscavenge":    {"GC scavenge wait", "sleep"},
}

// findParts finds them. It returns errNotYet if the program has not come so far.
func (p *Process) findParts(ctx context.Context, l gosym.Layout) (parts runtimeParts, err error) {
	names := []string{funcForEachG, funcAllgadd, funcReason, funcGopark, funcCoroswitch}
	for name := range reasonsOfOwn {
		names = append(names, name)
	}
	funcs, err := p.code.table.Named(ctx, names...)
	if err != nil {
		return parts, err
	}
	for _, name := range names[:4] {
		if len(funcs[name]) == 0 {
			return parts, errWaits("the program has no %s", name)
		}
	}
	parts.parked, parts.switched, parts.own = funcs[funcGopark], funcs[funcCoroswitch], make(map[uint64]string)
	for name := range reasonsOfOwn {
		for _, f := range funcs[name] {
			parts.own[f.Entry] = name
		}
	}
	if parts.reasons, err = p.findReasons(funcs[funcReason]); err != nil {
		return parts, err
	}
	list, err := p.references(funcs[funcForEachG])
	if err != nil {
		return parts, err
	}
	adds, err := p.references(funcs[funcAllgadd])
	if err != nil {
		return parts, err
	}
	for _, at := range list {
		if first, n, ok := p.sliceOfGs(at, l); ok {
			parts.allgptr, parts.allglen, err = p.listAt(at, first, n, adds)
			return parts, err
		}
	}
	return parts, errNotYet
}

// references returns what functions refer to.
func (p *Process) references(funcs []gosym.Func) (refs []uint64, err error) {
	for _, f := range funcs {
		of, err := p.code.table.References(f)
		if err != nil {
			return nil, errWaits("read %s: %w", f.Name, err)
		}
		refs = append(refs, of...)
	}
	return refs, nil
}

// sliceOfGs reports whether there is a slice of descriptors of goroutines at an address, and what it has.
func (p *Process) sliceOfGs(at uint64, l gosym.Layout) (first, n uint64, ok bool) {
	var head [24]byte
	if !plausible(at) || p.instant.Memory.Read(at, head[:]) != nil {
		return 0, 0, false
	}
	first, n = binary.NativeEndian.Uint64(head[:]), binary.NativeEndian.Uint64(head[8:])
	const most = 1 << 28 // goroutines
	if room := binary.NativeEndian.Uint64(head[16:]); !plausible(first) || n == 0 || n > room || room > most {
		return 0, 0, false
	}
	const looked = 8
	gs := make([]byte, 8*min(n, looked))
	if p.instant.Memory.Read(first, gs) != nil {
		return 0, 0, false
	}
	id := newIdentifier(p.instant.Memory, l)
	for i := 0; i < len(gs); i += 8 {
		g, ok := id.read(binary.NativeEndian.Uint64(gs[i:]))
		if size := g.hi - g.lo; !ok && g.hi != 0 || size&(size-1) != 0 || g.id >= maxGoroutines || i == 0 && g.id != 1 {
			return 0, 0, false
		}
	}
	return first, n, true
}

// listAt finds the pointer and the length that the runtime keeps beside the slice at an address.
func (p *Process) listAt(at, first, n uint64, refs []uint64) (pointer, length uint64, err error) {
	var lengths []uint64
	for _, ref := range refs {
		var word [8]byte
		if ref == at || ref == at+8 || ref == at+16 || !plausible(ref) || p.instant.Memory.Read(ref, word[:]) != nil {
			continue
		}
		switch binary.NativeEndian.Uint64(word[:]) {
		case first:
			pointer = ref
		case n:
			if !slices.Contains(lengths, ref) {
				lengths = append(lengths, ref)
			}
		}
	}
	if len(lengths) > 1 {
		lengths = slices.DeleteFunc(lengths, p.isTypeOfPointers)
	}
	if pointer == 0 || len(lengths) != 1 { // another word has the same number by accident
		return 0, 0, errNotYet
	}
	return pointer, lengths[0], nil
}

// isTypeOfPointers reports whether the type *g may be at an address, which runtime.allgadd hands to growslice. It begins
// with its size and with how much of that has pointers, 8 both (internal/abi.Type, Go 1.20 to 1.27): the number of
// goroutines of many a small program.
func (p *Process) isTypeOfPointers(at uint64) bool {
	var head [16]byte
	const size = 8
	return p.instant.Memory.Read(at, head[:]) == nil && binary.NativeEndian.Uint64(head[:]) == size && binary.NativeEndian.Uint64(head[8:]) == size
}

// findReasons reads the texts of reasons from the array that functions refer to.
func (p *Process) findReasons(funcs []gosym.Func) ([]string, error) {
	refs, err := p.references(funcs)
	if err != nil {
		return nil, err
	}
	for _, at := range refs {
		if texts := p.textsAt(at); slices.Contains(texts, "IO wait") && slices.Contains(texts, "chan receive") {
			return texts, nil
		}
	}
	return nil, errWaits("the program has no texts of reasons to wait")
}

// mostReasons and longestReason bound the texts. Go 1.20 to 1.27 have 32 to 47, of up to 45 bytes.
const (
	mostReasons   = 64
	longestReason = 64
)

// textsAt reads an array of texts; the first may be empty. They are the target's bytes: only letters and a few marks
// pass.
func (p *Process) textsAt(at uint64) (texts []string) {
	for i := range uint64(mostReasons) {
		var head [stringSize]byte
		if !plausible(at) || p.instant.Memory.Read(at+i*stringSize, head[:]) != nil {
			break
		}
		text, ok := p.text(binary.NativeEndian.Uint64(head[:]), binary.NativeEndian.Uint64(head[8:]))
		if !ok || text == "" && i > 0 {
			break
		}
		texts = append(texts, text)
	}
	return texts
}

func (p *Process) text(addr, size uint64) (string, bool) {
	if size == 0 {
		return "", true
	}
	if size > longestReason || addr < 4096 || addr >= process.OSThread-size {
		return "", false
	}
	buf := make([]byte, size)
	if p.instant.Memory.Read(addr, buf) != nil {
		return "", false
	}
	plain := !slices.ContainsFunc(buf, func(b byte) bool {
		return !('a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || strings.IndexByte(" .():/-_,", b) >= 0)
	})
	return string(buf), plain
}
