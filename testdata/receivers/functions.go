package receivers

// functions returns closures of three functions. The rarer, the longer.
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
