package receivers

// message is implemented by four types, each sent by one caller. Only that caller,
// and it stands depth calls above the function of the site, tells the type.
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

// The callers: what they send is known from them alone.

//go:noinline
func post(m *letter, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

//go:noinline
func shop(m *parcel, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

//go:noinline
func bank(m *receipt, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

//go:noinline
func guard(m *alarm, t *tally) { deliver(m, t); relay(m, t); forward(m, t) }

// The sites, and what stands between them and the callers.

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
