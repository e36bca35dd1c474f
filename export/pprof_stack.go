package export

import (
	"encoding/binary"
	"math/bits"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofStack is the stack of the node that a writer has entered last. Nodes come in
// preorder, so a stack shares most of its frames with the next one. Their locations are
// kept as a file has them: leaf first, each a number of Protocol Buffers. So a sample
// copies the locations of its callers, and encodes one.
type pprofStack struct {
	levels  []level // outermost frame first
	settled int     // so many levels have their spot
	callers frontList
}

// level is a frame of the stack. Its position changes from one child to the next.
type level struct {
	frame
	spot  spotID // of the position; 0: not inlined, or not known yet
	above mark   // after the locations of the frames above
}

// enter goes to the next node of the canonical form.
func (s *pprofStack) enter(e *entry) {
	depth := e.depth
	s.levels = s.levels[:depth]
	if depth > 0 && s.levels[depth-1].offset != e.Offset {
		depth--
		s.levels[depth].offset = e.Offset
	}
	s.settled = min(s.settled, depth)
	if !e.IsPosition() {
		s.levels = append(s.levels, level{frame: frame{e.method, ccmap.NoOffset}})
	}
}

// top returns the innermost frame.
func (s *pprofStack) top() *level { return &s.levels[len(s.levels)-1] }

// locateStack finds the locations of the stack: of the frame on top, and of its callers.
func (p *pprofBuilder) locateStack() (top uint64, callers *frontList) {
	outermost := p.outermost()
	p.callers.cut(p.kept())
	for ; p.settled < len(p.levels); p.settled++ {
		i := p.settled
		at := &p.levels[i]
		at.spot = 0
		if i > outermost && p.inlined && p.c.isInlined(p.levels[i-1].frame, at.method) {
			at.spot = p.findSpot(spotKey{outer: p.spotOf(&p.levels[i-1]), method: uint32(at.method), offset: at.offset})
		}
		if i > outermost && (at.spot == 0 || p.spots.key(at.spot).outer == 0) {
			p.callers.put(p.locationOf(&p.levels[i-1], true))
		}
		at.above = p.callers.mark
	}
	return p.locationOf(p.top(), false), &p.callers
}

// spotOf returns the spot of a level.
func (p *pprofBuilder) spotOf(l *level) spotID {
	if l.spot == 0 {
		l.spot = p.frameSpot(l.frame)
	}
	return l.spot
}

// locationOf returns the id of the location of a level.
func (p *pprofBuilder) locationOf(l *level, call bool) uint64 {
	if l.spot == 0 {
		return p.frameLocation(l.frame, call)
	}
	return p.location(l.spot, call)
}

// kept returns how many locations stay of the last stack.
func (s *pprofStack) kept() mark {
	if s.settled == 0 {
		return mark{}
	}
	return s.levels[s.settled-1].above
}

// outermost returns the first level that is a frame. A stack of nothing but labels has them
// as a frame.
func (p *pprofBuilder) outermost() int {
	if len(p.levels) > 1 && p.c.methods[p.levels[0].method].IsLabels() {
		return 1
	}
	return 0
}

// frontList is a list of numbers of Protocol Buffers that grows at its front.
type frontList struct {
	buffer []byte // the list is at its end
	mark
}

// mark is how long a list was at a moment.
type mark struct{ bytes, count int }

// list returns the numbers.
func (l *frontList) list() []byte { return l.buffer[len(l.buffer)-l.bytes:] }

// put puts a number before the list.
func (l *frontList) put(v uint64) {
	n := (bits.Len64(v|1) + 6) / 7 // bytes
	if l.bytes+n > len(l.buffer) {
		const least = 1 << 10
		grown := make([]byte, max(least, 2*len(l.buffer)))
		copy(grown[len(grown)-l.bytes:], l.list())
		l.buffer = grown
	}
	l.bytes += n
	l.count++
	binary.PutUvarint(l.list(), v)
}

// cut takes the list back to a mark.
func (l *frontList) cut(to mark) { l.mark = to }
