package valueprof

// pool makes points and their tables and takes them back, to be used again.
type pool struct {
	capacity int
	hash     Hash
	live     int // points in use
	points   []*point
	tables   []*tended
}

func (p *pool) point() *point {
	p.live++
	if n := len(p.points); n > 0 {
		pt := p.points[n-1]
		p.points = p.points[:n-1]
		return pt
	}
	return new(point)
}

func (p *pool) table() *tended {
	if n := len(p.tables); n > 0 {
		t := p.tables[n-1]
		p.tables = p.tables[:n-1]
		return t
	}
	return &tended{table: New(p.capacity, p.hash)}
}

// free takes a point and its table.
func (p *pool) free(pt *point) {
	p.live--
	if t := pt.table; t != nil {
		t.table.clear()
		*t = tended{table: t.table}
		p.tables = append(p.tables, t)
	}
	*pt = point{}
	p.points = append(p.points, pt)
}

// bytes is the memory of what waits to be used again.
func (p *pool) bytes() int {
	n := pointerBytes*(cap(p.points)+cap(p.tables)) + pointBytes*len(p.points)
	for _, t := range p.tables {
		n += tendedBytes + t.table.Bytes()
	}
	return n
}
