package gosym

import (
	"context"
	"errors"
	"fmt"
)

// Errors of [Table.Once].
var (
	ErrNoFunction = errors.New("the program has no function of this name")
	ErrInlined    = errors.New("it is inlined, and its executions there cannot be told from those of its caller")
	ErrFrameless  = errors.New("it has no frame, and no instruction is known that each execution has once")
)

// Once returns the address of an instruction that each execution of a function executes once. A function begins
// again at its entry when its stack has grown or it was preempted there, so it is the instruction after the one
// that makes the frame (cmd/internal/obj/x86/obj6.go, Go 1.18 to 1.27). The name has the form of symbols:
// net/http.(*conn).serve.
func (t *Table) Once(ctx context.Context, name string) (pc uint64, err error) {
	b, end := beginLoad(newBudget(ctx, t.held), t.delay)
	defer end()
	found := 0
	for _, m := range t.modules {
		for i := range m.nfunc {
			if err := b.work(recordCost); err != nil {
				return 0, err
			}
			r, ok := m.record(i)
			if !ok {
				continue
			}
			if m.inlines(b, r, name) {
				return 0, fmt.Errorf("%s in %s: %w", name, m.name(r.nameOff), ErrInlined)
			}
			if m.name(r.nameOff) != name || m.ids[r.rawID] == FuncWrapper {
				continue
			}
			if pc = m.afterFrame(b, r); pc == 0 {
				return 0, fmt.Errorf("%s: %w", name, ErrFrameless)
			}
			found++
		}
	}
	switch {
	case b.spent != nil:
		return 0, b.spent
	case found == 0:
		return 0, fmt.Errorf("%s: %w", name, ErrNoFunction)
	case found > 1:
		return 0, fmt.Errorf("%s: the program has %d functions of this name: %w", name, found, ErrUnsupported)
	}
	return pc, nil
}

// afterFrame returns the address after the first instruction that changes the stack pointer, 0 where none does.
func (m *module) afterFrame(b *budget, r record) uint64 {
	for at, delta := range m.values(b, r, r.pcsp) {
		if delta > 0 && at > r.entry {
			return at
		}
	}
	return 0
}

// inlines reports whether a function has an inlined call of another.
func (m *module) inlines(b *budget, r record, name string) bool {
	tree, ok := m.funcdata(r, funcdataInlTree)
	if !ok || pcdataInlTree >= r.npcdata {
		return false
	}
	last := int32(-1)
	for _, value := range m.values(b, r, m.word(r.pcdatas+4*pcdataInlTree)) {
		last = max(last, value)
	}
	for i := range last + 1 {
		call, ok := m.inlinedCall(tree, i)
		if !ok || b.work(1) != nil {
			return false
		}
		if m.name(call.nameOff) == name {
			return true
		}
	}
	return false
}
