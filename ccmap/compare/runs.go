package compare

// paths says of which nodes the counters of paths of two methods or more are the
// sum: those at which the path ends. They have their places in an order together.
type paths struct {
	order
	stretchAt []uint32 // by place: the stretch that the node there is in
	own       []uint64 // by stretch: how many paths end in it once, and nowhere else
}

// newPaths is given the stretch of each node, and how many there are.
func newPaths(u *union, o order, stretch []uint32, stretches int) paths {
	p := paths{o, make([]uint32, len(o.nodes)), make([]uint64, stretches)}
	for place, v := range o.nodes {
		p.stretchAt[place] = stretch[v]
		if place > 0 {
			p.own[stretch[v]] += uint64(u.depth[v] - 1 - p.common(place))
		}
	}
	return p
}

// common returns how many edges the word at a place has in common with one of
// its neighbours.
func (p *paths) common(place int) uint32 { return max(p.shared.at(place), p.after(place)) }

// after returns how many edges the word at a place has in common with the next.
func (p *paths) after(place int) uint32 {
	if place+1 == len(p.nodes) {
		return 0
	}
	return p.shared.at(place + 1)
}

// run is a run of two places or more in an order, whose words have length edges
// in common, and no more: the sum of their values is the counter of that path.
type run struct {
	length uint32
	first  uint32 // place
	sum    pair
}

// eachRun hands out the runs, each with the place behind it and the number of
// paths that it stands for: those that end at its nodes, and at no others.
//
// Open runs lie on a stack, each within the one below it and longer. A run
// that ends speaks for all lengths over that of the run around it: those paths
// end at the same nodes.
func (p *paths) eachRun(x values, ended func(r run, end uint32, paths uint64)) {
	open := []run{{}}
	for place := 1; place < len(p.nodes); place++ {
		shared, value := p.shared.at(place), x.at(p.stretchAt[place])
		open = closeRuns(open, shared, uint32(place), ended)
		if after := p.after(place); after > shared {
			open = append(open, run{after, uint32(place), value})
			continue
		}
		top := &open[len(open)-1]
		top.sum = top.sum.add(value)
	}
	closeRuns(open, 0, uint32(len(p.nodes)), ended)
}

// closeRuns ends the runs longer than shared. If the run around them is
// shorter than that, one of that length opens around them.
func closeRuns(open []run, shared, end uint32, ended func(run, uint32, uint64)) []run {
	for {
		top := &open[len(open)-1]
		if top.length <= shared {
			return open
		}
		around := &open[len(open)-2]
		if around.length < shared {
			ended(*top, end, uint64(top.length-shared))
			top.length = shared
			return open
		}
		ended(*top, end, uint64(top.length-around.length))
		around.sum = around.sum.add(top.sum)
		open = open[:len(open)-1]
	}
}
