package ccmap

// cumulative has the totals of edges and of call sites in which a sample counts once,
// however often recursion brings it there. As with methods, only the outermost nodes
// of an edge or site count, with all that is below them.
type cumulative struct {
	edges  []Counters // by index.edges
	sites  []Counters // by number
	siteOf []uint32   // number of each edge's call site
}

func (s *Snapshot) calls() *cumulative {
	s.cumulative.once.Do(func() { s.cumulative.build(s, s.indexed()) })
	return &s.cumulative.cumulative
}

// build makes the totals in time linear in the nodes.
func (c *cumulative) build(s *Snapshot, x *index) {
	c.edges = make([]Counters, len(x.edges))
	c.numberSites(x)
	c.addNodes(s, x)
	c.addBases(s, x)
	c.limit(x)
}

// numberSites finds the edges of one call site, which are neighbours by caller.
func (c *cumulative) numberSites(x *index) {
	c.siteOf = make([]uint32, len(x.edges))
	for i, e := range x.byCaller {
		if i == 0 || !x.edges[e].sameSite(x.edges[x.byCaller[i-1]].edgeKey) {
			c.sites = append(c.sites, Counters{})
		}
		c.siteOf[e] = uint32(len(c.sites) - 1)
	}
}

func (k edgeKey) sameSite(o edgeKey) bool { return k.caller == o.caller && k.site == o.site }

// isCall reports whether the edge is a call that was sampled there.
func (k edgeKey) isCall(pruned MethodID) bool {
	return k.caller != NoMethod && k.callee != NoMethod && k.callee != pruned
}

// addNodes adds what is at and below the outermost nodes of each edge and site.
func (c *cumulative) addNodes(s *Snapshot, x *index) {
	edgeOf := make([]uint32, s.nodes.len)
	for i, e := range x.edges {
		for _, n := range x.nodes[e.lo:e.hi] {
			edgeOf[n] = uint32(i)
		}
	}
	inEdge, inSite := make([]NodeID, len(c.edges)), make([]NodeID, len(c.sites)) // outermost node on the path at hand
	sums, pruned := s.sums(), s.names.prunedID()
	for n, entered := range s.walk() {
		e := edgeOf[n]
		if !x.edges[e].isCall(pruned) {
			continue
		}
		below := sums.of(n)
		count(&inEdge[e], &c.edges[e], n, entered, below)
		count(&inSite[c.siteOf[e]], &c.sites[c.siteOf[e]], n, entered, below)
	}
}

// count adds what is at and below a node, unless another that counts is above it.
func count(holder *NodeID, total *Counters, n NodeID, entered bool, below span) {
	switch {
	case !entered && *holder == n:
		*holder = 0
	case entered && *holder == 0:
		*holder = n
		*total = total.Add(Counters{Samples: below.samples, Time: below.time})
	}
}

// addBases adds what removed nodes had counted: there a sample may count repeatedly.
func (c *cumulative) addBases(s *Snapshot, x *index) {
	pruned := s.names.prunedID()
	for p := range s.PrunedEdges() {
		if !p.key().isCall(pruned) {
			continue
		}
		e, total := x.number(p.key()), p.Total
		c.edges[e] = c.edges[e].Add(total)
		c.sites[c.siteOf[e]] = c.sites[c.siteOf[e]].Add(total)
	}
}

// limit gives edges and sites no more than their methods have, which know every sample
// once.
func (c *cumulative) limit(x *index) {
	for i, e := range x.edges {
		if e.caller == NoMethod || e.callee == NoMethod {
			continue
		}
		caller, site := x.methods[e.caller].cumulative, &c.sites[c.siteOf[i]]
		c.edges[i] = c.edges[i].least(caller).least(x.methods[e.callee].cumulative)
		*site = site.least(caller)
	}
}

// least returns the smaller of the samples, and of the times.
func (c Counters) least(o Counters) Counters {
	return Counters{Samples: min(c.Samples, o.Samples), Time: min(c.Time, o.Time)}
}
