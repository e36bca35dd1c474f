package rewrite

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/ccmapd/ccmapd/sampler/wasm/internal/debuginfo"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/format"
)

// Options say what is added to a module. The zero value adds safe points and nothing
// else.
type Options struct {
	// Marks keeps DepthGlobal, VisitedGlobal and LimitGlobal, which separate the
	// activations that a sample has seen from the others.
	Marks bool
	// Calls reports indirect calls to CallFunction while CallsGlobal is set. It needs
	// MultiValue.
	Calls bool
	// MultiValue says that the module will be compiled with that feature, which is in
	// wazero's version 2. Without it polls cost more.
	MultiValue bool
	// TailCalls says the same of that feature, which wazero calls experimental. Without
	// it polls of functions with numbers cost more.
	TailCalls bool
	// Exact also counts the executed instructions of the original, in ExecutedGlobal.
	Exact bool
	// Points reports branches, switches and blocks to PointFunction while PointsGlobal is
	// set.
	Points bool
	// Quiet returns the polls that each defined function goes without, as an earlier run has
	// found nothing there. Exits are the positions of their exits, as Original gives them; of
	// functions that have no polls there are none. Nil: none. With Exact it is not called.
	Quiet func(exits [][]uint32) []Quiet
	// Known reports whether the targets of the indirect call at an offset of a function, as
	// Original gives it, are known: then the call is not reported. Nil: none are.
	Known func(function, offset uint32) bool
	// Announce reports whether an imported function may call back into the module. Its
	// calls are announced while its bit in AnnounceGlobal is set. Nil: none may.
	Announce func(module, name string) bool
	// Debug bounds the cost of reading the module's DWARF. Other readers share it. Nil:
	// the rewriting has a budget of its own.
	Debug *debuginfo.Budget
}

// Module is a rewritten module, with the facts that a host needs. It does not change
// after Rewrite, so any goroutine may read it.
type Module struct {
	Binary []byte

	// Imported is the number of the original's imported functions. They keep their
	// indices; the other functions follow in Functions.
	Imported  int
	Functions []Kind
	// Total is the number of functions of the rewritten module.
	Total int
	// Sites are the indirect calls, by the site in calls of CallFunction. There are no
	// sites without Options.Calls.
	Sites []Site
	// Points are the places that are counted, by the site in calls of PointFunction. There
	// are none without Options.Points.
	Points []Point
	// Entries maps the functions that hosts call, by their index in the rewritten module,
	// to functions of the original. A listener on them sees every entry and exit, traps
	// included.
	Entries map[uint32]uint32
	// Announced holds each imported function's bit in AnnounceGlobal, or 0 if its calls
	// are not announced. More than 64 share bits.
	Announced []uint64

	hosts  int // added imports
	spans  []span
	bodies []extent         // of the original, in its code section
	stubs  map[uint32]place // by the index of the stub
}

// Site is an indirect call in the original.
type Site struct {
	Function uint32 // the caller
	Table    uint32
	Offset   uint32 // of the instruction, as Original gives it

	// Params and Results are the types of the expected function, as the binary format
	// encodes them.
	Params, Results []byte
}

// Rewrite adds safe points to a module. The error is a *RefusedError. Rewrite does not
// change or keep the module's bytes.
func Rewrite(module []byte, o Options) (*Module, error) {
	m, err := rewrite(module, o)
	if err != nil {
		return nil, &RefusedError{err.Offset, err.Reason}
	}
	return m, nil
}

func rewrite(data []byte, o Options) (*Module, *format.Error) {
	m, err := parse(data)
	if err != nil {
		return nil, err
	}
	p, err := makePlan(m)
	if err != nil {
		return nil, err
	}
	if o.Quiet != nil && !o.Exact {
		p.quieten(m, o.Quiet)
	}
	a := newAssembly(m, p, o)
	if err := a.writeCode(); err != nil {
		return nil, err
	}
	a.writeSections()
	if err := a.writeNames(); err != nil {
		return nil, err
	}
	a.writeDebug(cmp.Or(o.Debug, debuginfo.NewBudget(len(data))))
	a.out.Binary = a.join()
	return a.out, nil
}

// Function returns the original's index of a function of the rewritten module. It is
// false for added functions.
func (m *Module) Function(index uint32) (uint32, bool) {
	switch i := int(index); {
	case i < m.Imported:
		return index, true
	case i < m.Imported+m.hosts || i >= m.Imported+m.hosts+len(m.Functions):
		return 0, false
	}
	return index - uint32(m.hosts), true
}

// place is an instruction of a function of the original.
type place struct{ function, position uint32 }

// Stub describes an added function that polls in place of a function of the original, at
// its entry or an exit: the function's index, and the position of its first or last
// instruction. At a sample it stands for the activation.
func (m *Module) Stub(index uint32) (function, position uint32, ok bool) {
	p, ok := m.stubs[index]
	return p.function, p.position, ok
}

// errors.Is finds ErrRefused in every error of Rewrite.
var ErrRefused = errors.New("wasm module refused")

// RefusedError says why a module cannot be rewritten exactly. The module may be malformed
// (wazero has the better message), or it uses a feature that the rewriter does not know.
type RefusedError struct {
	Offset int // of the defect in the module, in bytes
	Reason string
}

func (e *RefusedError) Error() string {
	return fmt.Sprintf("rewrite wasm module: at offset %#x: %s", e.Offset, e.Reason)
}

// Is makes every RefusedError an ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
