package main

// step has two implementations. What they do is arithmetic, which takes the same
// time whenever it is done, so that half a percent more can be seen.
type step interface{ next(x uint64) uint64 }

type (
	shiftLeft  struct{ by uint }
	shiftRight struct{ by uint }
)

//go:noinline
func (s *shiftLeft) next(x uint64) uint64 {
	for range stepRounds {
		x ^= x << s.by
		x ^= x >> 7
	}
	return x
}

//go:noinline
func (s *shiftRight) next(x uint64) uint64 {
	for range stepRounds {
		x ^= x >> s.by
		x ^= x << 17
	}
	return x
}

const stepRounds = 50

var steps = []step{&shiftLeft{13}, &shiftLeft{11}, &shiftRight{7}, &shiftLeft{5}}

// makeCalls makes a hundred calls through an interface.
func makeCalls(number int) {
	x := uint64(number) | 1
	for i := range 100 {
		x = walk(steps[i%len(steps)], x)
	}
	sink.Store(int64(x))
}

//go:noinline
func walk(s step, x uint64) uint64 { return s.next(x) + 1 }
