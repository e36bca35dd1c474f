package compare

// unknown is larger than any number of edges that two words share.
const unknown = 1<<32 - 1

// minima is an array of numbers, unknown at first, whose least in any range is
// found in O(log n). Each level above the first has the least of every fanOut
// entries below it.
type minima [][]uint32

const (
	fanOutBits = 4
	fanOut     = 1 << fanOutBits
)

func newMinima(n int) minima {
	var m minima
	for {
		level := make([]uint32, n)
		for i := range level {
			level[i] = unknown
		}
		m = append(m, level)
		if n < fanOut {
			return m
		}
		n = (n + fanOut - 1) >> fanOutBits
	}
}

func (m minima) at(i int) uint32 { return m[0][i] }

// lower sets entry i to v, which is at most what it was.
func (m minima) lower(i int, v uint32) {
	m[0][i] = v
	for _, level := range m[1:] {
		i >>= fanOutBits
		if level[i] <= v {
			return
		}
		level[i] = v
	}
}

// least returns the least of the entries from lo up to but not at hi.
func (m minima) least(lo, hi int) uint32 {
	least := uint32(unknown)
	for _, level := range m {
		for ; lo < hi && lo%fanOut != 0; lo++ {
			least = min(least, level[lo])
		}
		for ; lo < hi && hi%fanOut != 0; hi-- {
			least = min(least, level[hi-1])
		}
		if lo == hi {
			break
		}
		lo >>= fanOutBits
		hi >>= fanOutBits
	}
	return least
}
