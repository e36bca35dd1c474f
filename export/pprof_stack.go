package export

import (
	"encoding/binary"

	"github.com/ccmapd/ccmapd/ccmap"
)

// pprofStack is the stack of the node that a writer has entered last. Nodes come in
// preorder, so a stack shares most of its frames with the next one. Their locations are
// kept as a file has them: leaf first, each a number of Protocol Buffers. So a sample
// copies the locations of its callers, and encodes one.
type pprofStack struct {
	levels  []level // outermost frame first
	located int     // so many levels have their spot
	callers frontList
}

// level is a frame of the stack. Its position changes from one child to the next.
type level struct {
	frame
	index int    // of the entry
	spot  spotID // of the position
	above mark   // after the locations of the frames above
}

// enter goes to the next node of the canonical form.
func (s *pprofStack) enter(e *entry) {
	depth := len(s.levels)
	for depth > 0 && s.levels[depth-1].index != e.parent {
		depth--
	}
	s.levels = s.levels[:depth]
	if depth > 0 && s.levels[depth-1].offset != e.Offset {
		depth--
		s.levels[depth].offset = e.Offset
	}
	s.located = min(s.located, depth)
	if !e.IsPosition() {
		s.levels = append(s.levels, level{frame: frame{e.method, ccmap.NoOffset}, index: e.index})
	}
}

// top returns the innermost frame.
func (s *pprofStack) top() *level { return &s.levels[len(s.levels)-1] }

// locate finds the locations of the stack: of the frame on top, and of its callers.
func (p *pprofBuilder) locate() (top uint64, callers *frontList) {
	outermost := p.outermost()
	p.callers.cut(p.kept())
	for ; p.located < len(p.levels); p.located++ {
		i := p.located
		at := &p.levels[i]
		key := spotKey{method: uint32(at.method), offset: at.offset}
		if i > outermost && p.c.isInlined(p.levels[i-1].frame, at.method) {
			key.outer = p.levels[i-1].spot
		}
		at.spot = p.findSpot(key)
		if i > outermost && p.spots.spot(at.spot).outer == 0 {
			p.callers.put(p.location(p.levels[i-1].spot, true))
		}
		at.above = p.callers.mark
	}
	return p.location(p.top().spot, false), &p.callers
}

// kept returns how many locations stay of the last stack.
func (s *pprofStack) kept() mark {
	if s.located == 0 {
		return mark{}
	}
	return s.levels[s.located-1].above
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
	var number [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(number[:], v)
	if l.bytes+n > len(l.buffer) {
		const least = 1 << 10
		grown := make([]byte, max(least, 2*len(l.buffer)))
		copy(grown[len(grown)-l.bytes:], l.list())
		l.buffer = grown
	}
	l.bytes += n
	l.count++
	copy(l.list(), number[:n])
}

// cut takes the list back to a mark.
func (l *frontList) cut(to mark) { l.mark = to }
