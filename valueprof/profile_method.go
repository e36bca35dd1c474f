package valueprof

// method is what a profile has of one method.
type method struct {
	id      uint32
	seen    uint64 // executions before it was warm
	calls   uint64 // in the recent info at the last Renew, or now if that is more; see forgetRarest
	stale   bool   // cold, and not executed since the last Renew
	body    *body  // of the recent info; nil while the method is cold
	history History
}

// earlier returns what the best info holds, or nil if the recent one is the best
// or the only one.
func (m *method) earlier() *body {
	if best := m.history.best.Load(); best != nil && best.body != m.body {
		return best.body.(*body)
	}
	return nil
}

// points is how many points the method has, in both infos.
func (m *method) points() int {
	n := 0
	for _, b := range []*body{m.body, m.earlier()} {
		if b != nil {
			n += len(b.points)
		}
	}
	return n
}

// newPoint creates the point of k in the recent info of its method, making room
// if there is none. It returns nil, and counts n executions as cold or dropped,
// if it may not.
func (p *Profile) newPoint(k key, n uint64) *point {
	if max(p.pool.live, len(p.methods)) >= p.opts.MaxPoints {
		p.makeRoom()
	}
	m := p.warm(k.Method, n)
	if m == nil {
		return nil
	}
	if p.pool.live >= p.opts.MaxPoints {
		p.dropped += n
		return nil
	}
	pt := p.pool.point()
	pt.key = k
	m.body.points = append(m.body.points, pt)
	p.index.insert(pt)
	return pt
}

// warm counts n executions of a method, and returns it if that makes it warm or
// it is already.
func (p *Profile) warm(id uint32, n uint64) *method {
	m := p.methods[id]
	if m == nil {
		if len(p.methods) >= p.opts.MaxPoints {
			p.dropped += n
			return nil
		}
		m = &method{id: id}
		p.methods[id] = m
	}
	if m.body != nil {
		return m
	}
	m.stale = false
	if m.seen+n < uint64(p.opts.Warm) {
		m.seen += n
		p.cold += n
		return nil
	}
	p.open(m)
	return m
}

// open gives a method a new recent info, to be recorded in.
func (p *Profile) open(m *method) {
	b := &body{profile: p}
	b.info = NewInfo(p.janitor, b)
	m.history.Renew(b.info)
	if m.body != nil {
		m.body.info.Release()
	}
	m.body = b
}
