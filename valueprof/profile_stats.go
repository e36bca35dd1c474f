package valueprof

import "unsafe"

// Stats says what a profile holds and what it did.
type Stats struct {
	Methods int // that were executed
	Warm    int // of them, those with points
	Points  int // held, in best and recent infos
	Tables  int // of them, those with a table
	Infos   int // held
	Bytes   int // of all that, and of the memory that waits to be used again

	// Calls is how many executions the profile was told of, which is the sum of
	// Recorded, Cold, Dropped and Superseded.
	Calls      uint64
	Recorded   uint64 // in the points that are held
	Cold       uint64 // of methods that were not warm yet
	Dropped    uint64 // for want of room, while a reader held what was forgotten
	Superseded uint64 // in points that were freed

	Evicted int // points that were forgotten to make room, see Options.MaxPoints

	Looks, Decays, Resets, Freed int // by the janitor: looks, tables, tables, infos
}

// Stats takes time in proportion to the points held.
func (p *Profile) Stats() Stats {
	s := Stats{
		Methods: len(p.methods), Bytes: p.bytes(),
		Cold: p.cold, Dropped: p.dropped, Superseded: p.superseded, Evicted: p.evicted,
		Looks: p.looked.Looks, Decays: p.looked.Decayed, Resets: p.looked.Reset, Freed: p.looked.Freed,
	}
	for _, m := range p.methods {
		if m.body != nil {
			s.Warm++
		}
	}
	for i := p.janitor.all.Load(); i != nil; i = i.next {
		s.addBody(i.body.(*body))
	}
	s.Calls = s.Recorded + s.Cold + s.Dropped + s.Superseded
	return s
}

func (s *Stats) addBody(b *body) {
	s.Infos++
	s.Bytes += b.bytes()
	s.Points += len(b.points)
	for _, pt := range b.points {
		s.Recorded += pt.executions()
		if pt.table != nil {
			s.Tables++
		}
	}
}

// MethodBytes is the memory of all that is held of one method, 0 if there is
// nothing.
func (p *Profile) MethodBytes(id uint32) int {
	m := p.methods[id]
	if m == nil {
		return 0
	}
	n := methodBytes
	for _, b := range []*body{m.body, m.earlier()} {
		if b != nil {
			n += b.bytes()
		}
	}
	return n
}

// What memory the parts of a profile take.
const (
	pointBytes   = int(unsafe.Sizeof(point{}))
	tendedBytes  = int(unsafe.Sizeof(tended{})) // without its table
	pointerBytes = int(unsafe.Sizeof((*point)(nil)))
	bodyBytes    = int(unsafe.Sizeof(body{}) + unsafe.Sizeof(Info{}))
	// methodBytes counts the entry in the map of methods twice, as a map is half
	// empty at worst after it has grown.
	methodBytes = int(unsafe.Sizeof(method{})) + 2*(4+pointerBytes)
)

// bytes is the memory of a profile but for its infos.
func (p *Profile) bytes() int {
	return len(p.methods)*methodBytes + len(p.index.slots)*pointerBytes + p.pool.bytes()
}
