package classes

import (
	"errors"

	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/vmstructs"
)

// The bounds of one load, whatever the target's memory says.
const (
	maxLoadBytes = 2 << 30 // read from the target
	maxLoadSteps = 1 << 25 // reads of any size
)

// ErrSpent says that a load has taken all that it may.
var ErrSpent = errors.New("the JVM's classes take more than they may")

const (
	// pieceSize is how much is read at once, in bytes. The JVM commits memory for classes in
	// larger parts (65,536 bytes), so few pieces have holes.
	pieceSize = 1 << 14
	// maxPieces bounds the copies that are kept, in pieces. A load that needs more reads some
	// again.
	maxPieces = 64 << 20 / pieceSize
)

// pieces is memory that was copied in whole pieces, as reads asked for them. The JVM keeps
// classes and methods close together, so one call to the kernel serves hundreds of reads. A
// copy is older than the read, so pieces live for one load only.
type pieces struct {
	memory vmstructs.Memory
	copies map[uint64][]byte // by the number of the piece; nil: it has holes
	free   [][]byte          // pieces to use again
	bytes  int               // that the load may still read
	steps  int               // that it may still take
}

func newPieces(memory vmstructs.Memory) *pieces {
	return &pieces{memory: memory, copies: make(map[uint64][]byte), bytes: maxLoadBytes, steps: maxLoadSteps}
}

// spent reports whether less than a share of the load's bounds is left: one part in of.
func (p *pieces) spent(of int) bool {
	return p.bytes < maxLoadBytes/of || p.steps < maxLoadSteps/of
}

// Read is part of [vmstructs.Memory].
func (p *pieces) Read(addr uint64, buf []byte) error {
	for len(buf) > 0 {
		piece, err := p.piece(addr / pieceSize)
		if err != nil {
			return err
		}
		at := addr % pieceSize
		n := min(len(buf), int(pieceSize-at))
		if piece != nil {
			copy(buf[:n], piece[at:])
		} else if err := p.direct(addr, buf[:n]); err != nil {
			return err
		}
		addr, buf = addr+uint64(n), buf[n:]
	}
	return nil
}

// ReadMany is part of [vmstructs.Memory].
func (p *pieces) ReadMany(addrs []uint64, bufs [][]byte) (int, error) {
	for i, addr := range addrs {
		if err := p.Read(addr, bufs[i]); err != nil {
			return i, err
		}
	}
	return len(addrs), nil
}

// piece returns the copy of a piece, nil if it has holes.
func (p *pieces) piece(number uint64) ([]byte, error) {
	if p.steps--; p.steps < 0 {
		return nil, ErrSpent
	}
	if copied, known := p.copies[number]; known {
		return copied, nil
	}
	if len(p.copies) >= maxPieces {
		p.forget()
	}
	piece := p.empty()
	err := p.direct(number*pieceSize, piece)
	if errors.Is(err, ErrSpent) {
		return nil, err
	}
	if err != nil {
		p.free = append(p.free, piece)
		piece = nil
	}
	p.copies[number] = piece
	return piece, nil
}

// empty returns a piece to fill.
func (p *pieces) empty() []byte {
	if last := len(p.free) - 1; last >= 0 {
		piece := p.free[last]
		p.free = p.free[:last]
		return piece
	}
	return make([]byte, pieceSize)
}

// forget drops the copies.
func (p *pieces) forget() {
	for _, piece := range p.copies {
		if piece != nil {
			p.free = append(p.free, piece)
		}
	}
	clear(p.copies)
}

// direct reads from the target. A short read costs as much as a page.
func (p *pieces) direct(addr uint64, buf []byte) error {
	const page = 4096
	if p.bytes -= max(len(buf), page); p.bytes < 0 {
		return ErrSpent
	}
	return p.memory.Read(addr, buf)
}

// Load calls work. Until it returns, the table reads memory in whole pieces, and keeps them. So
// work sees memory as it was at some moment since its begin, or since the begin of the last
// Walk in it. The bounds of bytes and steps are of all of work; beyond them nothing can be read.
// What it has learned of classes is true if [Table.Check] says afterwards that the JVM still
// has them.
func (t *Table) Load(work func()) {
	t.pieces = newPieces(t.vm.Memory)
	t.forgetCopies()
	work()
	t.pieces = nil
	t.forgetCopies()
}

// forgetCopies drops what was copied and may change: in a load, reads from then on see the
// memory as it is.
func (t *Table) forgetCopies() {
	t.last = nil
	clear(t.symbols)
	if t.pieces != nil {
		t.pieces.forget()
	}
}

// memory returns what is read from: in a load, its copies.
func (t *Table) memory() vmstructs.Memory {
	if t.pieces != nil {
		return t.pieces
	}
	return t.vm.Memory
}
