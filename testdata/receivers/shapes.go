package receivers

// What the sites call differs in time, so that who measures time and who counts
// calls can be told apart.
const (
	short = 250 // rounds
	long  = 500
)

// shape is implemented by two types: as values, for which an interface table has
// wrappers that take pointers, (*square).area for square.area.
type shape interface{ area(t *tally) }

type (
	square struct{ side float64 }
	circle struct{ radius float64 }
)

//go:noinline
func (square) area(t *tally) { t.work(callSquare, short) }

//go:noinline
func (circle) area(t *tally) { t.work(callCircle, short) }

//go:noinline
func bimorphic(s shape, t *tally) { s.area(t) }

// clock is implemented by one type.
type clock interface{ tick(t *tally) }

type quartz struct{ ticks int }

//go:noinline
func (q *quartz) tick(t *tally) {
	q.ticks++
	t.work(callQuartz, short)
}

//go:noinline
func monomorphic(c clock, t *tally) { c.tick(t) }
