package tlab

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// model is the mix of sizes of a thread, or of several, and for each size the probability that an object
// is seen.
type model struct {
	sizes  map[int]*class  // that were seen, by sizeClass
	rooms  map[int64]*life // of cycles
	cycles int64
	fitted int64 // cycles at the last fit; 0: there was none

	means []float64 // of the classes at the last fit, ascending
	seen  []float64 // probability of each to be seen
}

// class is the objects of about one size.
type class struct{ seen, bytes float64 }

// life is the cycles of buffers with one room.
type life struct{ cycles, wasted float64 }

// Numbers of cycles.
const (
	leastCycles = 30      // for a fit
	mostCycles  = 1 << 14 // after which older ones count half as much: programs change
)

// mostRooms is how many rooms are remembered. G1 has buffers of many sizes, as each ends with a region.
const mostRooms = 1 << 8

// sizeClass returns one of four classes an octave.
func sizeClass(size int64) int { return int(4 * math.Log2(float64(max(size, 1)))) }

// see notes an object.
func (m *model) see(size int64) {
	if m.sizes == nil {
		m.sizes = make(map[int]*class)
	}
	c := m.sizes[sizeClass(size)]
	if c == nil {
		c = new(class)
		m.sizes[sizeClass(size)] = c
	}
	c.seen++
	c.bytes += float64(max(size, 1))
}

// The JVM's rules for the end of a buffer, see the package.
const (
	wastePart = 64 // of the room
	wasteMore = 32 // bytes with each object outside
)

// end notes a cycle that has ended.
func (m *model) end(c cycle) {
	if c.room == 0 {
		return
	}
	if m.rooms == nil || len(m.rooms) >= mostRooms {
		m.rooms = m.frequent(mostRooms / 2)
	}
	l := m.rooms[c.room]
	if l == nil {
		l = new(life)
		m.rooms[c.room] = l
	}
	l.cycles++
	l.wasted += float64(c.largest)/wastePart + wasteMore/2*float64(c.outside)
	if m.cycles++; m.cycles >= mostCycles {
		m.age()
	}
}

// frequent returns the most frequent rooms.
func (m *model) frequent(most int) map[int64]*life {
	kept := make(map[int64]*life)
	for _, room := range m.byFrequency()[:min(most, len(m.rooms))] {
		kept[room] = m.rooms[room]
	}
	return kept
}

// byFrequency returns the rooms, the most frequent first.
func (m *model) byFrequency() []int64 {
	return slices.SortedFunc(maps.Keys(m.rooms), func(a, b int64) int {
		return cmp.Or(cmp.Compare(m.rooms[b].cycles, m.rooms[a].cycles), cmp.Compare(a, b))
	})
}

// age halves all counts.
func (m *model) age() {
	m.cycles /= 2
	m.fitted /= 2
	for _, l := range m.rooms {
		l.cycles, l.wasted = l.cycles/2, l.wasted/2
	}
	for _, c := range m.sizes {
		c.seen, c.bytes = c.seen/2, c.bytes/2
	}
}

func (m *model) suffices() bool { return m.cycles >= leastCycles }
func (m *model) isFitted() bool { return m.fitted > 0 }

// isDue reports whether a fit is worth its time: there are half as many cycles more.
func (m *model) isDue() bool { return m.suffices() && 2*m.cycles >= 3*m.fitted }

// visible returns the probability that an object is seen: never 0. Without a fit all places of a
// buffer are equally likely.
func (m *model) visible(size, room float64) float64 {
	if !m.isFitted() {
		return min(size/max(room, size), 1)
	}
	at, found := slices.BinarySearch(m.means, size)
	last := len(m.means) - 1
	switch {
	case found:
		return m.seen[at]
	case at == 0:
		return max(m.seen[0]*size/m.means[0], leastSeen)
	case at > last:
		return min(m.seen[last]*size/m.means[last], 1)
	}
	part := (size - m.means[at-1]) / (m.means[at] - m.means[at-1])
	return m.seen[at-1] + part*(m.seen[at]-m.seen[at-1])
}
