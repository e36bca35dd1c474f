package gosym

import (
	"context"
	"iter"
	"math"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym/body"
)

// Code says what functions of a program are, and what they call: it tells [ccmap.Fit] what a profile
// of an earlier build still fits. It is immutable.
type Code struct {
	methods map[string]ccmap.Method
	known   map[string]bool // functions whose calls are known, inlined ones included
	free    map[string]bool // of them, those above which stacks may have any function: assembly
	calls   map[codeCall]bool
}

// codeCall is a call in the source.
type codeCall struct {
	caller string
	offset uint32 // in lines from the caller's first
	callee string // "": it may reach any function; or ofRuntime
}

// Code reads what the program has of the functions that are wanted. It takes time for each function
// of the program, and about 1 µs for each byte of those that are wanted. Where the bounds of a load
// end, the rest of the functions is unknown, and the error wraps [ErrTooMuch].
func (t *Table) Code(ctx context.Context, wanted func(name string) bool) (*Code, error) {
	c := &Code{make(map[string]ccmap.Method), make(map[string]bool), make(map[string]bool), make(map[codeCall]bool)}
	b, end := beginLoad(newBudget(ctx, t.held), t.delay)
	defer end()
	for _, m := range t.modules {
		for i := range m.nfunc {
			if err := b.work(recordCost); err != nil {
				return c, err
			}
			r, ok := m.record(i)
			if !ok || m.ids[r.rawID] == FuncWrapper || !wanted(m.name(r.nameOff)) {
				continue
			}
			if err := t.addCode(b, c, m, r); err != nil {
				return c, err
			}
		}
	}
	return c, nil
}

// addCode adds a function.
func (t *Table) addCode(b *budget, c *Code, m *module, r record) error {
	const byteCost = 32 // steps
	if err := b.work(int(min(r.end-r.entry, maxBody)) * byteCost); err != nil {
		return err
	}
	method := m.method(m.logical(b, r, r.entry, r.nameOff, r.startLine, r.rawID))
	t.Limit(math.MaxInt)
	bytes, err := m.code(r)
	if err == nil {
		f := body.Code{Entry: r.entry, Bytes: bytes}
		method.Body = f.Hash(t)
		c.known[method.Name], c.free[method.Name] = true, r.flags&FlagAsm != 0
		t.addCalls(b, c, m, r, f)
	}
	before, twice := c.methods[method.Name]
	if twice && before.Body != method.Body {
		method.Body = ccmap.MixedBodies
	}
	c.methods[method.Name] = method
	return b.spent
}

// addCalls adds the calls in a function: those that were inlined, and those that instructions do.
func (t *Table) addCalls(b *budget, c *Code, m *module, r record, f body.Code) {
	for pc := range m.inlinedAt(b, r) {
		c.addFrames(m.expand(b, r, pc, nil))
	}
	for call := range f.Calls() {
		if frames := c.addFrames(m.expand(b, r, call.At, nil)); len(frames) > 0 {
			c.calls[codeCall{frames[0].Name, frames[0].offset(), t.callee(call.Target)}] = true
		}
	}
}

// addFrames adds the calls among the logical frames of an instruction, and returns those that stacks
// have.
func (c *Code) addFrames(frames []LogicalFrame) []LogicalFrame {
	frames = elide(frames, false)
	for i := 1; i < len(frames); i++ {
		c.known[frames[i-1].Name] = true
		c.calls[codeCall{frames[i].Name, frames[i].offset(), frames[i-1].Name}] = true
	}
	return frames
}

// ofRuntime stands for any function of the runtime: its assembly, which the compiler calls without the
// source, can jump on to another of its functions.
const ofRuntime = "runtime."

// callsBack are functions in assembly of the runtime that call a function which they are given.
var callsBack = map[string]bool{
	"runtime.systemstack": true, "runtime.mcall": true, "runtime.reflectcall": true,
	"runtime.asmcgocall": true, "runtime.asmcgocall_no_g": true, "runtime.cgocallback": true,
}

// callee returns the function that a call reaches, "" if stacks may show another: a wrapper is left
// out, assembly can jump on to another function, and C has other tables.
func (t *Table) callee(target uint64) string {
	m := t.module(target)
	if m == nil {
		return ""
	}
	r, ok := m.find(target)
	if !ok || m.ids[r.rawID] == FuncWrapper {
		return ""
	}
	name := m.name(r.nameOff)
	switch {
	case r.flags&FlagAsm == 0:
		return name
	case strings.HasPrefix(name, ofRuntime) && !callsBack[name]:
		return ofRuntime
	}
	return ""
}

// inlinedAt yields an address of each piece of a function that comes from an inlined call.
func (m *module) inlinedAt(b *budget, r record) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		if pcdataInlTree >= r.npcdata {
			return
		}
		for at, value := range m.values(b, r, m.word(r.pcdatas+4*pcdataInlTree)) {
			if value >= 0 && !yield(at) {
				return
			}
		}
	}
}

// Method is part of [ccmap.Build].
func (c *Code) Method(name, signature string) (ccmap.Method, bool) {
	m, ok := c.methods[name]
	return m, ok && signature == ""
}

// injected are functions that the runtime makes a function call at any of its instructions
// (runtime.isInjectedCall, Go 1.26).
var injected = map[string]bool{"runtime.sigpanic": true, "runtime.asyncPreempt": true, "runtime.debugCallV2": true}

// isOfRuntime reports whether a function is one of the runtime, or a part of its assembly, whose name has
// no package.
func isOfRuntime(name string) bool {
	return strings.HasPrefix(name, ofRuntime) || !strings.Contains(name, ".")
}

// MayCall is part of [ccmap.Build]. Functions of C are called through assembly, where any function may be.
func (c *Code) MayCall(caller ccmap.Method, offset uint32, callee ccmap.Method) (may, known bool) {
	at := codeCall{caller.Name, offset, callee.Name}
	may = offset == ccmap.NoOffset || c.free[caller.Name] || injected[callee.Name] || c.calls[at]
	if at.callee = ""; c.calls[at] {
		may = true
	}
	if at.callee = ofRuntime; c.calls[at] && isOfRuntime(callee.Name) {
		may = true
	}
	return may, c.known[caller.Name]
}
