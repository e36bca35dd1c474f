package ccmap_test

import (
	"encoding/binary"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
	"pgregory.net/rapid"
)

// explicit is the paper's CC-Map, written out: a counter for every contiguous
// sub-path of every stack. The key of a path of one method is its
// MethodProfile, of two its Callee, of more a CalleeRef.
type explicit map[string]ccmap.Counters

// key encodes a path: methods and, between them, sites, outermost first.
func key(path []ccmap.PathElem) string {
	var b []byte
	for i, e := range path {
		if i > 0 {
			b = binary.LittleEndian.AppendUint32(b, path[i-1].Site)
		}
		b = binary.LittleEndian.AppendUint32(b, uint32(e.Method))
	}
	return string(b)
}

// path returns a stack, innermost first, as a path.
func path(buf []ccmap.Frame) []ccmap.PathElem {
	p := make([]ccmap.PathElem, 0, len(buf))
	for _, f := range slices.Backward(buf) {
		p = append(p, ccmap.PathElem{Method: f.Method, Site: f.Offset})
	}
	return p
}

func (x explicit) count(buf []ccmap.Frame, c ccmap.Counters) {
	k := key(path(buf))
	x[k] = x[k].Add(c)
}

// update is the paper's section 3.1.4 for a whole stack, buf[0] innermost, of
// which the fresh innermost frames are new activations.
func (x explicit) update(buf []ccmap.Frame, weight int64, fresh int) {
	sampled := func(j int) ccmap.Counters {
		c := ccmap.Counters{Samples: 1, Time: weight}
		if j < fresh {
			c.Activations = 1 // of the last frame of the path
		}
		return c
	}
	for i := range buf {
		x.count(buf[i:i+1], sampled(i)) // MethodProfile(buf[i])
		if i > 0 {
			x.count(buf[i-1:i+1], sampled(i-1)) // Callee(buf[i], buf[i-1])
		}
		for j := i - 2; j >= 0; j-- {
			x.count(buf[j:i+1], sampled(j)) // CalleeRef(buf[j]) in buf[i]'s tree
		}
	}
}

// program simulates threads that call and return, and a source that samples
// them: whole, partially and truncated, with marks on visited frames.
type program struct {
	names     *ccmap.Names
	truncated ccmap.MethodID
	threads   [3]thread
	samples   []ccmap.Sample // as the source delivers them

	stacks   [][]ccmap.Frame // the whole stack of each sample
	fresh    []int           // activations new in each
	explicit explicit
	orphaned uint64
	exact    bool
}

type thread struct {
	stack []activation // outermost first
	cut   bool         // the last sample was cut or an orphan, or does not exist
}

type activation struct {
	frame   ccmap.Frame
	visited bool
}

func newProgram() *program {
	p := &program{names: ccmap.NewNames(), explicit: explicit{}, exact: true}
	for _, name := range []string{"A", "B", "C", "D"} {
		p.names.Intern(ccmap.Method{Name: name})
	}
	p.truncated = p.names.Intern(ccmap.Method{Name: ccmap.TruncatedName})
	for i := range p.threads {
		p.threads[i].cut = true
	}
	return p
}

// run draws a history of some steps.
func (p *program) run(t *rapid.T, steps int) {
	for range rapid.IntRange(1, steps).Draw(t, "steps") {
		th := rapid.IntRange(0, len(p.threads)-1).Draw(t, "thread")
		p.threads[th].move(t)
		if rapid.IntRange(0, 2).Draw(t, "sample") > 0 {
			p.sample(t, th)
		}
	}
}

// move returns some calls, goes on in the caller, and makes some calls. Few
// methods and offsets make for much recursion and sharing.
func (th *thread) move(t *rapid.T) {
	back := rapid.IntRange(0, min(len(th.stack), 4)).Draw(t, "returns")
	th.stack = th.stack[:len(th.stack)-back]
	if n := len(th.stack); n > 0 {
		th.stack[n-1].frame.Offset = rapid.Uint32Range(1, 3).Draw(t, "offset")
	}
	calls := rapid.IntRange(0, 4).Draw(t, "calls")
	if len(th.stack) == 0 {
		calls++
	}
	for range calls {
		th.stack = append(th.stack, activation{frame: ccmap.Frame{
			Method: ccmap.FirstID + ccmap.MethodID(rapid.Uint32Range(0, 3).Draw(t, "method")),
			Offset: rapid.Uint32Range(1, 3).Draw(t, "offset"),
		}})
	}
	if rapid.IntRange(0, 9).Draw(t, "position") == 0 {
		th.stack[len(th.stack)-1].frame.Offset = ccmap.NoOffset
	}
}

// sample takes a sample of a thread and counts it, written out.
func (p *program) sample(t *rapid.T, th int) {
	tr := &p.threads[th]
	s := ccmap.Sample{Thread: uint64(th), Weight: rapid.Int64Range(0, 1000).Draw(t, "weight")}
	for _, a := range slices.Backward(tr.stack) {
		s.Frames = append(s.Frames, a.frame)
	}
	whole := slices.Clone(s.Frames)
	fresh := tr.fresh()
	switch kind := rapid.SampledFrom([]string{"whole", "whole", "partial", "truncated"}).Draw(t, "kind"); {
	case kind == "truncated":
		s.Frames = s.Frames[:rapid.IntRange(1, len(s.Frames)).Draw(t, "length")]
		s.Truncated = true
		p.exact = p.exact && fresh < len(s.Frames)
	case kind == "partial" && fresh < len(s.Frames):
		s.Frames = s.Frames[:fresh+1]
		s.Depth = uint32(len(whole) - fresh)
		if tr.cut {
			p.orphaned++
		}
	}
	s.Fresh = int32(min(fresh, len(s.Frames)))
	if s.Truncated || s.Depth > 0 && tr.cut {
		whole = append(slices.Clone(s.Frames), ccmap.Frame{Method: p.truncated, Offset: ccmap.NoOffset})
		tr.cut = true
	} else {
		tr.cut = false
	}
	tr.visit(len(s.Frames))
	p.samples = append(p.samples, s)
	p.stacks = append(p.stacks, whole)
	p.fresh = append(p.fresh, int(s.Fresh))
	p.explicit.update(whole, s.Weight, int(s.Fresh))
}

// fresh returns how many activations stand above the innermost visited one.
func (th *thread) fresh() int {
	n := 0
	for _, a := range slices.Backward(th.stack) {
		if a.visited {
			break
		}
		n++
	}
	return n
}

func (th *thread) visit(innermost int) {
	for i := len(th.stack) - innermost; i < len(th.stack); i++ {
		th.stack[i].visited = true
	}
}
