package soak

import (
	"fmt"
	"iter"
	"math/rand/v2"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/testdata/recorded"
)

// Shape of the generated program.
const (
	methods        = 3000
	threads        = 16
	liveStacks     = 20_000
	minDepth       = 8
	maxDepth       = 60
	newAMinute     = 67 // 4,000 stacks an hour give way to new ones
	minutesToDrift = 5  // then a hot stack and another one change places
)

// program is a synthetic program. Some of its live stacks are hot. The hot ones change
// over hours, and new stacks replace others all the time, in contexts that were never
// seen before.
type program struct {
	ledger  *ledger
	rng     *rand.Rand
	callees [][]ccmap.Frame // by caller: a callee, and the offset of the call to it
	live    []*stack        // by popularity, the hottest first
	last    [threads]*stack // by thread; nil before its first sample
	made    int             // number of stacks, including live ones
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

// newStack returns a stack that branches off a live one at some depth.
func (p *program) newStack() *stack {
	p.made++
	frames := make([]ccmap.Frame, 0, maxDepth) // outermost first, until the end
	method := ccmap.FirstID + ccmap.MethodID(p.rng.IntN(8))
	if len(p.live) > 0 {
		other := p.live[p.rng.IntN(len(p.live))].frames
		left := 1 + p.rng.IntN(len(other)-1) // innermost frames that it does not share
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

// pick returns the rank of a stack by popularity: one pick of 27 is the hottest, one of 6
// among the hundred hottest.
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

// sample fills in a thread's next sample and counts it: half of the time the thread's
// last stack. One in eight stops at the innermost activation that was seen before.
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

// shared returns the number of outermost activations that two stacks can share: the same
// methods, called from the same calls.
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

// stacks returns all stacks that may hold counts that are not posted.
func (p *program) stacks() iter.Seq[*stack] {
	return func(yield func(*stack) bool) {
		for _, s := range slices.Concat(p.live, p.last[:]) {
			if s != nil && !yield(s) {
				return
			}
		}
	}
}

// replay plays a recorded stream over and over, with threads of its own.
type replay struct {
	ledger  *ledger
	samples []ccmap.Sample
	stacks  []*stack // of the samples
	next    int
}

// openReplay opens a recorded stream. Its threads get numbers from firstThread on.
func openReplay(l *ledger, name string, firstThread uint64) (*replay, error) {
	samples, err := recorded.Open(name, l.names)
	if err != nil {
		return nil, err
	}
	truncation := ccmap.Frame{Method: ccmap.TruncatedID, Offset: ccmap.NoOffset}
	r := &replay{ledger: l, samples: samples}
	for i := range samples {
		s := &samples[i]
		s.Thread += firstThread
		s.Fresh = 0 // the map's own tests cover unmarked frames
		frames := slices.Clip(s.Frames)
		if s.Truncated {
			frames = append(frames, truncation)
		}
		r.stacks = append(r.stacks, l.open(frames))
	}
	return r, nil
}

// sample fills in the next sample and counts it.
func (r *replay) sample(s *ccmap.Sample) {
	next := &r.samples[r.next]
	s.Frames, s.Thread, s.Fresh, s.Depth, s.Truncated = next.Frames, next.Thread, 0, 0, next.Truncated
	r.ledger.count(r.stacks[r.next], s.Weight, 0)
	r.next = (r.next + 1) % len(r.samples)
}
