package goproc

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
)

// identity says whose stack a sample shows.
type identity struct {
	thread    uint64 // as in ccmap.Sample
	goroutine uint64 // as in ccmap.Sample
	labels    uint64 // address of the goroutine's labels; 0: none
}

// A goroutine holds fields of the runtime's g.
type goroutine struct {
	lo, hi uint64 // bounds of its stack
	m      uint64
	id     uint64 // 0 for a thread's own g0 and for its signal handler's
	labels uint64 // address; 0: none
}

func (g goroutine) holds(sp uint64) bool { return g.lo < sp && sp <= g.hi }

// identifier finds the goroutine of a sample. In Go code a register holds the address
// of the current g, so that address is exact. The number
// there is read after the sample was taken: it may by then be the number of the
// next goroutine that the runtime put into the same g.
type identifier struct {
	memory process.Memory
	layout gosym.Layout
	buf    []byte // as long as g is read
}

// maxLayout bounds the size of a g or m that a layout can ask for, in bytes.
const maxLayout = 4096

func newIdentifier(m process.Memory, l gosym.Layout) *identifier {
	end := max(l.GStackLo, l.GStackHi, l.GM, l.GID, l.GLabels) + 8
	return &identifier{memory: m, layout: l, buf: make([]byte, min(end, maxLayout))}
}

// identify names the goroutine, or else the OS thread. A stack
// that begins at a goroutine's root but runs on the thread's own stack belongs
// to the goroutine that the thread runs.
func (i *identifier) identify(s *process.Moment, st *stack, onGoroutine bool) identity {
	if st.g != 0 {
		if g, ok := i.read(st.g); ok {
			return identity{st.g, g.id, g.labels}
		}
	}
	g, ok := i.read(s.Regs.G())
	switch {
	case ok && g.id != 0:
		return identity{s.Regs.G(), g.id, g.labels}
	case ok && onGoroutine:
		return i.current(g.m, s.Regs.G())
	case ok && g.holds(s.Regs.SP):
		return identity{thread: s.Regs.G()}
	}
	return i.among(st.saved, process.OSThread|uint64(s.TID))
}

// among looks for the goroutine in words that a C function has saved.
func (i *identifier) among(words []byte, otherwise uint64) identity {
	for ; len(words) >= 8; words = words[8:] {
		addr := binary.NativeEndian.Uint64(words)
		g, ok := i.read(addr)
		if size := g.hi - g.lo; ok && g.id != 0 && size&(size-1) == 0 { // the runtime's stacks are powers of two
			return identity{addr, g.id, g.labels}
		}
	}
	return identity{thread: otherwise}
}

// current names the goroutine that an m runs, or its g0.
func (i *identifier) current(m, g0 uint64) identity {
	addr, ok := i.word(m + uint64(i.layout.MCurG))
	if !ok {
		return identity{thread: g0}
	}
	g, ok := i.read(addr)
	if !ok || g.id == 0 {
		return identity{thread: g0}
	}
	return identity{addr, g.id, g.labels}
}

func (i *identifier) read(addr uint64) (goroutine, bool) {
	if !plausible(addr) || i.memory.Read(addr, i.buf) != nil {
		return goroutine{}, false
	}
	g := goroutine{
		lo: i.field(i.layout.GStackLo),
		hi: i.field(i.layout.GStackHi),
		m:  i.field(i.layout.GM),
		id: i.field(i.layout.GID),

		labels: i.field(i.layout.GLabels),
	}
	return g, g.lo < g.hi && g.lo&7 == 0
}

func (i *identifier) field(offset int) uint64 {
	if offset < 0 || offset+8 > len(i.buf) {
		return 0
	}
	return binary.NativeEndian.Uint64(i.buf[offset:])
}

func (i *identifier) word(addr uint64) (uint64, bool) {
	var buf [8]byte
	if !plausible(addr) || i.memory.Read(addr, buf[:]) != nil {
		return 0, false
	}
	return binary.NativeEndian.Uint64(buf[:]), true
}

// plausible says whether an object of user space can be at addr: aligned,
// above the first page, in the lower half.
func plausible(addr uint64) bool { return addr&7 == 0 && addr >= 4096 && addr < process.OSThread }
