package compare

// cover measures hot-edge coverage in both directions.
func cover(edges []pair, tau float64) Coverage {
	var ofA, ofB hotEdges
	for _, c := range edges {
		ofA.hottest = max(ofA.hottest, c.a.float())
		ofB.hottest = max(ofB.hottest, c.b.float())
	}
	for _, c := range edges {
		ofA.count(c.a, c.b, tau)
		ofB.count(c.b, c.a, tau)
	}
	return Coverage{
		Tau: tau, HotA: ofA.hot, HotB: ofB.hot,
		AB: ofA.percent(), BA: ofB.percent(),
	}
}

// hotEdges counts one profile's hot edges, and those that another has too.
type hotEdges struct {
	hottest     float64 // value of the hottest edge
	hot, common int
}

func (h *hotEdges) count(own, other wide, tau float64) {
	if own.isZero() || own.float() < tau*h.hottest {
		return
	}
	h.hot++
	if !other.isZero() {
		h.common++
	}
}

func (h *hotEdges) percent() float64 {
	if h.hot == 0 {
		return 100
	}
	return 100 * float64(h.common) / float64(h.hot)
}
