package soak

import (
	"fmt"
	"iter"

	"github.com/ccmapd/ccmapd/ccmap"
)

// ledger is the arithmetic that checks the map: exact totals of methods, edges and lines,
// kept without a trie. A sample is counted at its stack. From time to time the counts are
// posted to all parts of the stack.
type ledger struct {
	names   *ccmap.Names
	total   ccmap.Counters
	numbers map[edge]uint32
	edges   []ccmap.Counters // by number
	methods []methodTotals   // by MethodID
	posts   int
}

// edge is a call; the start of an outermost frame, with the caller NoMethod; or a line of
// an innermost frame, with the callee NoMethod.
type edge struct {
	caller ccmap.MethodID
	offset uint32
	callee ccmap.MethodID
}

type methodTotals struct {
	total, cumulative, self ccmap.Counters
	lastPost                int // last post that counted here
}

// stack is a stack of a program, with its counts since the last post.
type stack struct {
	frames        []ccmap.Frame // innermost first; they never change
	calls         []uint32      // numbers of the edges to the frames
	line          uint32        // number of the edge to the innermost frame's line
	samples, time int64
	closed        bool // its last user must post it
}

func newLedger() *ledger {
	return &ledger{names: ccmap.NewNames(), numbers: make(map[edge]uint32)}
}

// open returns a stack of these frames.
func (l *ledger) open(frames []ccmap.Frame) *stack {
	s := &stack{frames: frames, calls: make([]uint32, len(frames))}
	for i, f := range frames {
		caller := ccmap.Frame{Method: ccmap.NoMethod, Offset: ccmap.NoOffset}
		if i+1 < len(frames) {
			caller = frames[i+1]
		}
		s.calls[i] = l.number(edge{caller.Method, caller.Offset, f.Method})
	}
	s.line = l.number(edge{frames[0].Method, frames[0].Offset, ccmap.NoMethod})
	return s
}

func (l *ledger) number(e edge) uint32 {
	n, ok := l.numbers[e]
	if !ok {
		n = uint32(len(l.edges))
		l.numbers[e] = n
		l.edges = append(l.edges, ccmap.Counters{})
	}
	return n
}

// count counts a sample of the stack, whose fresh innermost frames are new
// activations.
func (l *ledger) count(s *stack, weight int64, fresh int) {
	s.samples++
	s.time += weight
	for _, n := range s.calls[:fresh] {
		l.edges[n].Activations++
	}
	l.total = l.total.Add(ccmap.Counters{Samples: 1, Time: weight, Activations: int64(fresh)})
}

// close posts a stack that will not be shown again, except by threads that show it now.
func (l *ledger) close(s *stack) {
	l.post(s)
	s.closed = true
}

// post moves the counts of stacks to their methods, edges and lines.
func (l *ledger) post(s *stack) {
	if s.samples == 0 {
		return
	}
	l.posts++
	c := ccmap.Counters{Samples: s.samples, Time: s.time}
	s.samples, s.time = 0, 0
	for i, n := range s.calls {
		l.edges[n] = l.edges[n].Add(c)
		if m := l.method(s.frames[i].Method); m.lastPost != l.posts {
			m.lastPost = l.posts
			m.cumulative = m.cumulative.Add(c)
		}
	}
	l.edges[s.line] = l.edges[s.line].Add(c)
	m := l.method(s.frames[0].Method)
	m.self = m.self.Add(c)
}

func (l *ledger) method(id ccmap.MethodID) *methodTotals {
	if missing := int(id) + 1 - len(l.methods); missing > 0 {
		l.methods = append(l.methods, make([]methodTotals, missing)...)
	}
	return &l.methods[id]
}

// check compares every method, edge and line of a snapshot with the ledger, once
// the stacks are posted.
func (l *ledger) check(s *ccmap.Snapshot, stacks iter.Seq[*stack]) error {
	for stack := range stacks {
		l.post(stack)
	}
	if s.Total() != l.total {
		return fmt.Errorf("total is %+v, want %+v", s.Total(), l.total)
	}
	l.sumMethods()
	for id := range l.methods {
		if id == int(ccmap.PrunedID) {
			continue // its samples count for other methods
		}
		if err := l.checkMethod(s, ccmap.MethodID(id)); err != nil {
			return fmt.Errorf("method %s: %w", l.names.At(ccmap.MethodID(id)).Name, err)
		}
	}
	return l.checkEdges(s)
}

// sumMethods adds up the methods' totals from the edges to them.
func (l *ledger) sumMethods() {
	for id := range l.methods {
		l.methods[id].total = ccmap.Counters{}
	}
	for e, n := range l.numbers {
		if e.callee != ccmap.NoMethod {
			m := l.method(e.callee)
			m.total = m.total.Add(l.edges[n])
		}
	}
}

func (l *ledger) checkMethod(s *ccmap.Snapshot, id ccmap.MethodID) error {
	want := l.methods[id]
	want.cumulative.Activations = want.total.Activations
	want.self.Activations = want.total.Activations
	p, sampled := s.Method(id)
	switch {
	case !sampled && want.total.IsZero():
		return nil
	case p.Total() != want.total:
		return fmt.Errorf("total is %+v, want %+v", p.Total(), want.total)
	case p.Cumulative() != want.cumulative:
		return fmt.Errorf("cumulative is %+v, want %+v", p.Cumulative(), want.cumulative)
	case p.Self() != want.self:
		return fmt.Errorf("self is %+v, want %+v", p.Self(), want.self)
	}
	for offset, got := range p.Lines() {
		n, known := l.numbers[edge{id, offset, ccmap.NoMethod}]
		if !known || got != l.edges[n] {
			return fmt.Errorf("line +%d is %+v, want another", offset, got)
		}
	}
	return nil
}

// checkEdges compares all calls, and finds missing ones.
func (l *ledger) checkEdges(s *ccmap.Snapshot) error {
	missing := 0
	for e, n := range l.numbers {
		if e.caller != ccmap.NoMethod && e.callee != ccmap.NoMethod && !l.edges[n].IsZero() {
			missing++
		}
	}
	for e := range s.Edges() {
		if l.names.At(e.Callee()).Name == ccmap.PrunedName {
			continue
		}
		n, known := l.numbers[edge{e.Caller(), e.Offset(), e.Callee()}]
		if !known || e.Total() != l.edges[n] {
			return fmt.Errorf("edge %s+%d > %s is %+v, want another",
				l.names.At(e.Caller()).Name, e.Offset(), l.names.At(e.Callee()).Name, e.Total())
		}
		missing--
	}
	if missing != 0 {
		return fmt.Errorf("%d edges are missing", missing)
	}
	return nil
}
