package receivers

// vehicle is implemented by types that embed a base: the compiler makes each a
// wrapper that promotes base.drive, jumps there and leaves no frame.
type vehicle interface{ drive(t *tally) }

type (
	base struct {
		calls  counted
		rounds int
	}
	cart struct {
		_ float64 // so that base has an offset
		base
	}
	van struct {
		_ int
		*base
	}
)

//go:noinline
func (b *base) drive(t *tally) { t.work(b.calls, b.rounds) }

//go:noinline
func promoted(v vehicle, t *tally) { v.drive(t) }
