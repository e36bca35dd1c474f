package main

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Shape of the generated program.
const (
	methods        = 3000
	threads        = 16
	liveStacks     = 20_000
	minDepth       = 8
	maxDepth       = 60
	newAMinute     = 67 // 4,000 stacks an hour give way to new ones
	minutesToDrift = 5  // then a hot stack and any other change places
)

// program is a synthetic program. Of its live stacks some are hot; which ones
// changes over hours, and all the time stacks give way to new ones, in contexts
// that were never seen before.
type program struct {
	ledger  *ledger
	rng     *rand.Rand
	callees [][]ccmap.Frame // by caller: a callee, and the offset of the call to it
	live    []*stack        // by popularity, the hottest first
	last    [threads]*stack // by thread; nil before its first sample
	made    int             // stacks, live ones among them
}

// newProgram returns a program whose methods are the first of the ledger's.
func newProgram(l *ledger, seed uint64) *program {
	p := &program{
		ledger:  l,
		rng:     rand.New(rand.NewPCG(seed, seed)),
		callees: make([][]ccmap.Frame, methods),
	}
	for i := range p.callees {
		l.names.Intern(ccmap.Method{Name: fmt.Sprintf("soak/pkg%d.(*Type%d).Method%d", i%20, i%100, i)})
		for range 1 + p.rng.IntN(6) {
			callee := ccmap.FirstID + ccmap.MethodID(p.rng.IntN(methods))
			p.callees[i] = append(p.callees[i], ccmap.Frame{Method: callee, Offset: p.rng.Uint32N(100)})
		}
	}
	for range liveStacks {
		p.live = append(p.live, p.newStack())
	}
	return p
}

// newStack returns a stack that leaves that of a live one at some depth.
func (p *program) newStack() *stack {
	p.made++
	frames := make([]ccmap.Frame, 0, maxDepth) // outermost first, until the end
	method := ccmap.FirstID + ccmap.MethodID(p.rng.IntN(8))
	if len(p.live) > 0 {
		other := p.live[p.rng.IntN(len(p.live))].frames
		left := 1 + p.rng.IntN(len(other)-1) // innermost frames that it has not
		for _, f := range slices.Backward(other[left:]) {
			frames = append(frames, f)
		}
		method = other[left-1].Method
	}
	depth := minDepth + p.rng.IntN(maxDepth-minDepth+1)
	for more := true; more; more = len(frames) < depth {
		call := p.call(method)
		frames = append(frames, ccmap.Frame{Method: method, Offset: call.Offset})
		method = call.Method
	}
	slices.Reverse(frames)
	return p.ledger.open(frames)
}

// call returns one of a method's calls, mostly the first.
func (p *program) call(m ccmap.MethodID) ccmap.Frame {
	calls := p.callees[m-ccmap.FirstID]
	if p.rng.IntN(6) > 0 {
		return calls[0]
	}
	return calls[p.rng.IntN(len(calls))]
}

// pick returns the rank of a stack by popularity: one pick of 27 is the hottest,
// one of 6 among the hundred hottest.
func (p *program) pick() int {
	u := p.rng.Float64()
	return int(liveStacks * u * u * u)
}

// minute lets the n-th minute pass.
func (p *program) minute(n int64) {
	for range newAMinute {
		i := p.rng.IntN(liveStacks)
		p.ledger.close(p.live[i])
		p.live[i] = p.newStack()
	}
	if n%minutesToDrift == 0 {
		i, j := p.pick(), p.rng.IntN(liveStacks)
		p.live[i], p.live[j] = p.live[j], p.live[i]
	}
}

// sample fills in what a thread shows next and counts it: half of the time what
// it showed last. One in eight stops at the innermost activation that was seen
// before.
func (p *program) sample(s *ccmap.Sample) {
	dice := p.rng.Uint32()
	thread := dice % threads
	last, next := p.last[thread], p.last[thread]
	if last == nil || dice>>16&1 == 0 {
		next = p.live[p.pick()]
		p.last[thread] = next
	}
	shared := shared(last, next)
	fresh := len(next.frames) - shared
	s.Frames, s.Thread, s.Fresh, s.Depth, s.Truncated = next.frames, uint64(thread), int32(fresh), 0, false
	if shared > 0 && dice>>17&7 == 0 {
		s.Frames, s.Depth = next.frames[:fresh+1], uint32(shared)
	}
	if last != nil && last != next && last.closed {
		p.ledger.post(last)
	}
	p.ledger.count(next, s.Weight, fresh)
}

// shared returns how many of the outermost activations of two stacks can be the
// same: those of the same methods whose callers stand at the same calls.
func shared(last, next *stack) int {
	switch last {
	case nil:
		return 0
	case next:
		return len(next.frames)
	}
	a, b := last.frames, next.frames
	for n := range min(len(a), len(b)) {
		f, g := a[len(a)-1-n], b[len(b)-1-n]
		if f.Method != g.Method {
			return n
		}
		if f.Offset != g.Offset {
			return n + 1
		}
	}
	return min(len(a), len(b))
}

// stacks returns all that may hold counts that are not posted.
func (p *program) stacks() iter.Seq[*stack] {
	return func(yield func(*stack) bool) {
		for _, s := range slices.Concat(p.live, p.last[:]) {
			if s != nil && !yield(s) {
				return
			}
		}
	}
}
