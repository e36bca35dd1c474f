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
	return c, t.eachCode(b, wanted, func(m *module, r record) error { return t.addCode(b, c, m, r) })
}

// eachCode calls f for the physical functions that are wanted, until there is an error. Wrappers are left out.
func (t *Table) eachCode(b *budget, wanted func(name string) bool, f func(*module, record) error) error {
	const byteCost = 32 // steps
	for _, m := range t.modules {
		for i := range m.nfunc {
			if err := b.work(recordCost); err != nil {
				return err
			}
			r, ok := m.record(i)
			if !ok || m.ids[r.rawID] == FuncWrapper || !wanted(m.name(r.nameOff)) {
				continue
			}
			if err := b.work(int(min(r.end-r.entry, maxBody)) * byteCost); err != nil {
				return err
			}
			if err := f(m, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// addCode adds a function.
func (t *Table) addCode(b *budget, c *Code, m *module, r record) error {
	method := m.method(m.logical(b, r, r.entry, r.nameOff, r.startLine, r.rawID))
	t.Limit(math.MaxInt)
	bytes, err := m.code(r)
	if err == nil {
		f := body.Code{Entry: r.entry, Bytes: bytes}
		method.Body = f.Hash(t)
		c.known[method.Name], c.free[method.Name] = true, r.flags&FlagAsm != 0
		c.addCalls(t.callsIn(b, m, r, f))
	}
	before, twice := c.methods[method.Name]
	if twice && before.Body != method.Body {
		method.Body = ccmap.MixedBodies
	}
	c.methods[method.Name] = method
	return b.spent
}

// addCalls adds the calls in a function.
func (c *Code) addCalls(calls iter.Seq[Call]) {
	for call := range calls {
		at := codeCall{call.Caller, call.Offset, call.Callee}
		switch call.Kind {
		case InlinedCall:
			c.known[call.Callee] = true
		case OtherCall:
			at.callee = ""
		case RuntimeCall:
			at.callee = ofRuntime
		}
		c.calls[at] = true
	}
}

// ofRuntime stands for any function of the runtime: its assembly, which the compiler calls without the
// source, can jump on to another of its functions.
const ofRuntime = "runtime."

// callsBack are functions in assembly of the runtime that call a function which they are given.
var callsBack = map[string]bool{
	"runtime.systemstack": true, "runtime.mcall": true, "runtime.reflectcall": true,
	"runtime.asmcgocall": true, "runtime.asmcgocall_no_g": true, "runtime.cgocallback": true,
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
