package receivers

// message is implemented by four types, each sent by one caller. Only that caller, depth
// calls above the site's function, tells the type.
type message interface{ send(depth int, t *tally) }

type (
	letter  struct{ _ int }
	parcel  struct{ _ int }
	receipt struct{ _ int }
	alarm   struct{ _ int }
)

//go:noinline
func (*letter) send(depth int, t *tally) { t.work(sent(depth, 0), short) }

//go:noinline
func (*parcel) send(depth int, t *tally) { t.work(sent(depth, 1), short) }

//go:noinline
func (*receipt) send(depth int, t *tally) { t.work(sent(depth, 2), short) }

//go:noinline
func (*alarm) send(depth int, t *tally) { t.work(sent(depth, 3), long) }

// The callers. Each sends one type of message.

//go:noinline
func post(m *letter, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

//go:noinline
func shop(m *parcel, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

//go:noinline
func bank(m *receipt, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

//go:noinline
func guard(m *alarm, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

// The sites, and the functions between them and the callers.

//go:noinline
func deliver(m message, t *tally) { m.send(1, t) }

//go:noinline
func relay(m message, t *tally) { relayed(m, t) }

//go:noinline
func relayed(m message, t *tally) { m.send(2, t) }

//go:noinline
func forward(m message, t *tally) { pass(m, t) }

//go:noinline
func pass(m message, t *tally) { forwarded(m, t) }

//go:noinline
func forwarded(m message, t *tally) { m.send(3, t) }

// functions returns closures of three functions. The rarer ones are longer.
//
//go:noinline
func functions() []func(*tally) {
	unit := short // captured, so that these are closures rather than functions
	return []func(*tally){
		func(t *tally) { t.work(callFirst, unit) },
		func(t *tally) { t.work(callSecond, 2*unit) },
		func(t *tally) { t.work(callThird, 4*unit) },
	}
}

//go:noinline
func closure(f func(*tally), t *tally) { f(t) }

// The sites' targets differ in time, so that measured time and counted calls differ, too.
const (
	short = 250 // rounds
	long  = 500
)

// shape is implemented by two types, as values. For these an interface table has wrappers
// that take pointers, (*square).area for square.area.
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

// stack has one body for each shape of its element. An interface table has a wrapper for
// each type, which gives the body its dictionary.
type stack[T any] struct {
	calls  counted
	values []T
}

// push keeps the last values only.
//
//go:noinline
func (s *stack[T]) push(t *tally) {
	var zero T
	s.values = append(s.values[:len(s.values)%4], zero)
	t.work(s.calls, short)
}

type pusher interface{ push(t *tally) }

//go:noinline
func generic(p pusher, t *tally) { p.push(t) }

// vehicle is implemented by types that embed a base. For each the compiler makes a
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
