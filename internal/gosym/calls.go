package gosym

import (
	"context"
	"iter"
	"math"
	"strings"

	"github.com/ccmapd/ccmapd/internal/gosym/body"
)

// Call is a call of the source, as machine code has it.
type Call struct {
	In     string // the physical function with the code
	Caller string // the function whose source has the call: In, or one that was inlined there
	Offset uint32 // in lines from the caller's first, as in [ccmap.Frame]
	Line   int32  // in its file; 0 where it is not known
	Callee string // "": the code does not tell; stacks may show another one if the kind says so
	Kind   CallKind
}

// CallKind says how machine code does a call.
type CallKind uint8

const (
	DirectCall   CallKind = iota // a CALL of the callee
	InlinedCall                  // the callee's code is here
	IndirectCall                 // of an interface's method, or of a function value
	RuntimeCall                  // of assembly of the runtime, which can jump on to any function of the runtime
	OtherCall                    // of a wrapper, of C, or of other assembly: stacks show what that calls
)

// May reports whether stacks can show the callee at the call.
func (c Call) May(callee string) bool {
	switch c.Kind {
	case IndirectCall, OtherCall:
		return true
	case RuntimeCall:
		return c.Callee == callee || isOfRuntime(callee)
	}
	return c.Callee == callee
}

// Bounds of a walk over the calls of a program.
const (
	callsWork    = 1 << 31 // steps, for 64 MB of code: a minute
	mostInliners = 16      // physical functions that are read for each function that was inlined
)

// Calls calls each with the calls of the functions that are wanted, wherever their code is: in functions of
// their own, and in up to 16 functions that they were inlined into. The order is that of the code, and a call
// can come several times. Calls by assembly of the runtime are left out, as it may call anything. Calls takes
// some ns for each inlined call of the program, and about 1 µs for each byte of the functions that it reads.
// Errors wrap [ErrTooMuch], or are the context's.
func (t *Table) Calls(ctx context.Context, wanted func(name string) bool, each func(Call)) error {
	b, end := beginLoad(newBudget(ctx, t.held), t.delay)
	defer end()
	b.steps, b.look = callsWork, callsWork
	return t.eachCall(b, wanted, each)
}

// eachCall is Calls within a budget.
func (t *Table) eachCall(b *budget, wanted func(name string) bool, each func(Call)) error {
	inliners, err := t.inliners(b, wanted)
	if err != nil {
		return err
	}
	t.Limit(math.MaxInt)
	read := func(name string) bool { return inliners[name] || wanted(name) }
	return t.eachCode(b, read, func(m *module, r record) error {
		bytes, err := m.code(r)
		if err != nil || r.flags&FlagAsm != 0 {
			return b.spent
		}
		for call := range t.callsIn(b, m, r, body.Code{Entry: r.entry, Bytes: bytes}) {
			if wanted(call.Caller) {
				each(call)
			}
		}
		return b.spent
	})
}

// inliners returns functions that have code of those that are wanted inlined, some for each.
func (t *Table) inliners(b *budget, wanted func(name string) bool) (map[string]bool, error) {
	found, inliners := make(map[int32]int), make(map[string]bool)
	for _, m := range t.modules {
		clear(found) // offsets of names are the module's own
		for i := range m.nfunc {
			if err := b.work(recordCost); err != nil {
				return nil, err
			}
			r, ok := m.record(i)
			if !ok {
				continue
			}
			for nameOff := range m.inlinedNames(b, r) {
				if found[nameOff] < mostInliners && wanted(m.name(nameOff)) {
					found[nameOff]++
					inliners[m.name(r.nameOff)] = true
				}
			}
		}
	}
	return inliners, b.spent
}

// inlinedNames yields the offsets of the names of functions whose code was inlined into one, each once.
func (m *module) inlinedNames(b *budget, r record) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		tree, inlined := m.funcdata(r, funcdataInlTree)
		if !inlined || pcdataInlTree >= r.npcdata {
			return
		}
		walked, given := make(map[int32]bool), make(map[int32]bool)
		for _, i := range m.values(b, r, m.word(r.pcdatas+4*pcdataInlTree)) {
			// An inlined call with nothing but another inlined call in it has no instruction of its own.
			for i >= 0 && !walked[i] {
				walked[i] = true
				call, ok := m.inlinedCall(tree, i)
				if !ok {
					break
				}
				if !given[call.nameOff] && !yield(call.nameOff) {
					return
				}
				given[call.nameOff] = true
				i = m.pcdata(b, r, pcdataInlTree, r.entry+uint64(call.parentPC))
			}
		}
	}
}

// callsIn yields the calls in a physical function: those that were inlined, and those that instructions do.
func (t *Table) callsIn(b *budget, m *module, r record, f body.Code) iter.Seq[Call] {
	return func(yield func(Call) bool) {
		in := m.name(r.nameOff)
		for pc := range m.inlinedAt(b, r) {
			for call := range inlinedCalls(in, elide(m.expand(b, r, pc, nil), false)) {
				if !yield(call) {
					return
				}
			}
		}
		for call := range f.Calls() {
			frames := elide(m.expand(b, r, call.At, nil), false)
			if len(frames) == 0 {
				continue
			}
			callee, kind := t.callee(call)
			if !yield(Call{in, frames[0].Name, frames[0].offset(), frames[0].Line, callee, kind}) {
				return
			}
		}
	}
}

// inlinedCalls yields the calls among the logical frames of an instruction.
func inlinedCalls(in string, frames []LogicalFrame) iter.Seq[Call] {
	return func(yield func(Call) bool) {
		for i := 1; i < len(frames); i++ {
			if !yield(Call{in, frames[i].Name, frames[i].offset(), frames[i].Line, frames[i-1].Name, InlinedCall}) {
				return
			}
		}
	}
}

// callee returns the function that an instruction calls, and whether stacks may show another: a wrapper is left
// out, assembly can jump on to another function, and C has other tables.
func (t *Table) callee(call body.Call) (string, CallKind) {
	if call.Target == 0 {
		return "", IndirectCall
	}
	m := t.module(call.Target)
	if m == nil {
		return "", OtherCall
	}
	r, ok := m.find(call.Target)
	if !ok {
		return "", OtherCall
	}
	name := m.name(r.nameOff)
	switch {
	case m.ids[r.rawID] == FuncWrapper:
		return name, OtherCall
	case r.flags&FlagAsm == 0:
		return name, DirectCall
	case strings.HasPrefix(name, ofRuntime) && !callsBack[name]:
		return name, RuntimeCall
	}
	return name, OtherCall
}

// Body is a physical function of a program on disk, with the hash of its code ([ccmap.Method]).
type Body struct {
	Name      string
	StartLine int32  // 0 where it is not known
	Frame     uint32 // bytes of stack that an execution takes at most, the return address included
	Assembly  bool
	Hash      uint64
}

// Bodies calls each with the functions that are wanted, in the order of their code. A name can come several
// times. Functions of more than 512 kB are left out. It takes about 0.3 µs for each byte of them. Errors are those
// of [Table.Calls].
func (t *Table) Bodies(ctx context.Context, wanted func(name string) bool, each func(Body)) error {
	b, end := beginLoad(newBudget(ctx, t.held), t.delay)
	defer end()
	b.steps, b.look = callsWork, callsWork
	t.Limit(math.MaxInt)
	return t.eachCode(b, wanted, func(m *module, r record) error {
		if bytes, err := m.code(r); err == nil {
			hash := body.Code{Entry: r.entry, Bytes: bytes}.Hash(t)
			each(Body{m.name(r.nameOff), r.startLine, m.frameBytes(b, r), r.flags&FlagAsm != 0, hash})
		}
		return b.spent
	})
}

// frameBytes returns the bytes of stack that an execution takes at most.
func (m *module) frameBytes(b *budget, r record) uint32 {
	const returnAddress = 8
	deepest := int32(0)
	for _, delta := range m.values(b, r, r.pcsp) {
		deepest = max(deepest, delta)
	}
	return uint32(deepest) + returnAddress
}

// CodeBytes returns the bytes of the machine code of Go functions.
func (t *Table) CodeBytes() (sum uint64) {
	for _, m := range t.modules {
		sum += m.maxpc - m.minpc
	}
	return sum
}
