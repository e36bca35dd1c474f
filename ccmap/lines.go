package ccmap

import (
	"maps"
	"math"
	"sync"
)

// lines are the lines of positions that are not lines themselves. Any goroutine
// may use them. A position takes 12 bytes, and up to twice that in the map.
type lines struct {
	mu sync.RWMutex
	of map[Frame]int32
}

// SetLine says which line of the method's file a position is on: a line from 1, of
// a method whose coordinate is not lines. The first line of a position is kept,
// and what can have none, such as NoOffset, is dropped. To say it again costs no
// more than to look it up; callers say it once for each position that they meet.
func (n *Names) SetLine(f Frame, line int32) {
	if line <= 0 || f.Offset == NoOffset || int64(f.Method) >= int64(n.Len()) || n.At(f.Method).Coordinate == CoordinateLine {
		return
	}
	if n.lines.at(f) == 0 {
		n.lines.add(f, line)
	}
}

// Line returns the line of the method's file that a position is on, 0 where it is
// unknown. A method whose StartLine is unknown begins on line 1.
func (n *Names) Line(f Frame) int32 {
	if f.Offset == NoOffset {
		return 0
	}
	m := n.At(f.Method)
	if m.Coordinate != CoordinateLine {
		return n.lines.at(f)
	}
	line := int64(max(m.StartLine, 1)) + int64(int32(f.Offset))
	if m.File == "" || line < 1 || line > math.MaxInt32 {
		return 0
	}
	return int32(line)
}

// adoptLines adds the lines that another table knows of methods which have an id
// here.
func (n *Names) adoptLines(from *Names, ids methodIDs) {
	for f, line := range from.lines.all() {
		if int64(f.Method) < int64(len(ids)) {
			n.SetLine(Frame{ids[f.Method], f.Offset}, line)
		}
	}
}

func (l *lines) at(f Frame) int32 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.of[f]
}

func (l *lines) add(f Frame, line int32) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.of == nil {
		l.of = make(map[Frame]int32)
	}
	if l.of[f] == 0 {
		l.of[f] = line
	}
}

// all returns a copy: what reads it may add to another table, or to this one.
func (l *lines) all() map[Frame]int32 {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return maps.Clone(l.of)
}
