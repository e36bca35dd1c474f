package ccmap

import "math"

// choose decides what to keep so that the map takes toBytes. How many [pruned]
// nodes there will be is known only afterwards: it tries again with less. A chunk
// full of nodes may always stay, as the map has that chunk anyway.
func (p *pruning) choose(toBytes int64) {
	const tries = 8
	h := p.histogram()
	limit := max(toBytes-p.m.fixedBytes(), p.m.chunkBytes()+chunkLen*tableBytes)
	for room, try := limit, 0; room >= 0 && try < tries; try++ {
		p.keepHeaviest(&h, room)
		over := p.cost() - limit
		if over <= 0 {
			break
		}
		room -= over + over/4
	}
}

// Weights fall into buckets that are 9 to 12 percent wide: by the exponent and
// the leading bits of the fraction.
const (
	bucketShift = 52 - 3
	buckets     = 1 << (63 - bucketShift)
)

// histogram has the bytes of the runs by how much they weigh.
type histogram [buckets]int64

func (p *pruning) histogram() histogram {
	var h histogram
	for r := 1; r < len(p.sums); r++ {
		h[p.bucket(r)] += p.runCost(r, p.size(r))
	}
	return h
}

// bucket returns the bucket of what a run weighs, all below it included. Samples
// count as ns, so that those without time weigh something. Under a window what
// is older weighs as if it were 21 windows old: enough to tell contexts apart
// that weigh nothing else.
func (p *pruning) bucket(r int) int {
	const old = 1.0 / (1 << 30)
	s := p.sums[r]
	weight := float64(s.time) + float64(s.samples)
	if p.lately != nil {
		weight = weight*old + p.lately[r].time + p.lately[r].samples
	}
	return int(math.Float64bits(weight) >> bucketShift)
}

// keepHeaviest keeps the heaviest runs that there is room for, the newest of those
// that weigh the same, and what must stay with them.
func (p *pruning) keepHeaviest(h *histogram, room int64) {
	p.keep[0] = p.fitting(0, &room)
	cut := buckets - 1
	for cut > 0 && room >= h[cut] {
		room -= h[cut]
		cut--
	}
	for r := len(p.sums) - 1; r > 0; r-- {
		switch b := p.bucket(r); {
		case b > cut:
			p.keep[r] = p.size(r)
		case b == cut:
			p.keep[r] = p.fitting(r, &room)
		default:
			p.keep[r] = 0
		}
	}
	p.connect()
}

// fitting returns how many nodes of a run there is room for, and takes it.
func (p *pruning) fitting(r int, room *int64) uint32 {
	n := p.size(r)
	if cost := p.runCost(r, n); cost > *room {
		n = uint32(max(*room-tableBytes, 0) / p.m.nodeBytes())
	}
	if r == 0 {
		n = max(n, 1) // the root stays
	}
	*room = max(*room-p.runCost(r, n), 0)
	return n
}

// connect removes what hangs at nothing, keeps [pruned] nodes whose parent is
// kept, and says what becomes of the rest.
func (p *pruning) connect() {
	p.removed = 0
	for r := range p.keep {
		whole := r == 0 || p.whole(int(p.above[r]))
		switch {
		case !whole:
			p.keep[r] = 0
		case p.isPruned(r):
			p.keep[r] = p.size(r)
		}
		p.fate[r] = p.fateOf(r, whole)
		p.removed += uint64(p.size(r) - p.keep[r])
	}
}

func (p *pruning) fateOf(r int, whole bool) fate {
	switch {
	case p.whole(r):
		return kept
	case !whole || p.sums[r] == span{}:
		return lost
	case p.keep[r] > 0 && p.old.isPosition(p.gone(r)) || p.keep[r] == 0 && p.method[r] == NoMethod:
		return absorbed
	}
	return hung
}

// tableBytes is what the table takes for one node.
const tableBytes = 12

// runCost returns the bytes that the first n nodes of a run take.
func (p *pruning) runCost(r int, n uint32) int64 {
	if n == 0 {
		return 0
	}
	cost := int64(n) * p.m.nodeBytes()
	if p.isHead(r) {
		cost += tableBytes
	}
	return cost
}

// cost returns the bytes that nodes, counters and table will take, and counts the
// entries of that.
func (p *pruning) cost() int64 {
	hanging := make([]bool, len(p.keep)) // by run: whether its last kept node has a [pruned] child
	nodes := int64(1)                    // there is always room for one node more
	p.entries = 0
	for r, n := range p.keep {
		nodes += int64(n)
		if n > 0 && p.isHead(r) {
			p.entries++
		}
		if r > 0 && n > 0 && p.isPruned(r) {
			hanging[p.above[r]] = true
		}
	}
	for r, f := range p.fate {
		if f == hung && !hanging[p.parent(r)] {
			hanging[p.parent(r)] = true
			nodes++
			p.entries++
		}
	}
	chunks := (nodes + chunkMask) / chunkLen
	return chunks*p.m.chunkBytes() + int64(p.entries)*tableBytes
}
