package memory

// comers are places whose task has ended lately. Of a program with a goroutine for each request, some end and others
// begin between the census and the looks, which take a part of a millisecond. Those that have begun are in such places,
// so these are looked at, too. Otherwise requests of a millisecond would seem a quarter shorter: as much as the census
// is old when they are looked at.
type comers struct {
	seen   bits            // places that the census of this tick has found a task in
	looked []int32         // the active ones of the last tick
	left   map[int32]uint8 // for how many more ticks each is looked at
}

const (
	mostComers = 256
	comerTicks = 64
)

// begin begins a census of so many places.
func (c *comers) begin(places int) { c.seen.clear(places) }

// add adds the places to the active ones.
func (c *comers) add(active []int32) []int32 {
	if c.left == nil {
		c.left = make(map[int32]uint8)
	}
	for _, place := range c.looked {
		if _, known := c.left[place]; !known && !c.seen.has(place) && len(c.left) < mostComers {
			c.left[place] = comerTicks
		}
	}
	for place, left := range c.left {
		switch {
		case c.seen.has(place) || left == 0:
			delete(c.left, place)
		default:
			c.left[place] = left - 1
			active = append(active, place)
		}
	}
	return active
}

// bits is a set of places.
type bits []uint64

func (b *bits) clear(places int) {
	if n := (places + 63) / 64; cap(*b) < n {
		*b = make(bits, n, n+n/4)
	} else {
		*b = (*b)[:n]
		clear(*b)
	}
}

func (b bits) set(place int32) { b[place/64] |= 1 << (place % 64) }

func (b bits) has(place int32) bool { return b[place/64]&(1<<(place%64)) != 0 }
