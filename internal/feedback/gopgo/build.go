package gopgo

import (
	"context"
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
)

// Build is what one of two builds of a program does with the calls of a profile. It is immutable.
type Build struct {
	From      string // the path that was read
	Go        string // version of Go; "" where it is not known
	CodeBytes int64  // of Go functions
	calls     map[place][]made
	callers   map[string]bool     // plain names of functions with calls: inlined ones, too
	functions map[string]physical // by plain name
}

// place is a line of a function with calls.
type place struct {
	caller string // plain
	offset uint32 // in lines from the caller's first
}

// made is a call as machine code does it.
type made struct {
	in     string // plain; the function with the code
	callee string // plain
	line   int32  // in the file
	kind   gosym.CallKind
}

// physical is a function with code of its own.
type physical struct {
	first    int32 // line of its declaration
	frame    int64 // bytes of stack; the most of those with one plain name
	assembly bool
}

// Way says how a build does a call.
type Way string

// The ways.
const (
	WayInlined  Way = "inlined"
	WayDirect   Way = "direct"
	WayIndirect Way = "indirect" // by a function value or an interface's method
	WayAbsent   Way = "absent"   // no call of the line can be it
)

// ReadBuild reads from a binary on disk what it does with a profile's calls. Nothing of it is run. Errors are
// those of [Binary].
func ReadBuild(ctx context.Context, path string, s *ccmap.Snapshot, edges []Edge) (*Build, error) {
	t, err := gosym.OpenFile(ctx, path, gosym.Options{})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	b := &Build{
		From: path, Go: t.GoVersion(), CodeBytes: int64(t.CodeBytes()),
		calls: make(map[place][]made), callers: make(map[string]bool), functions: make(map[string]physical),
	}
	names := make(map[string]bool)
	for id := range s.Names().Len() {
		names[plainName(s.Names().At(ccmap.MethodID(id)).Name)] = true
	}
	wanted := remembering(func(name string) bool { return names[plainName(name)] })
	if err := b.readCalls(ctx, t, wanted); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := b.readFunctions(ctx, t, wanted); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, checkOwn(edges, path, b.has)
}

func (b *Build) readCalls(ctx context.Context, t *gosym.Table, wanted func(string) bool) error {
	seen := make(map[gosym.Call]bool)
	return t.Calls(ctx, wanted, func(c gosym.Call) {
		if seen[c] {
			return
		}
		seen[c] = true
		at := place{plainName(c.Caller), c.Offset}
		b.calls[at] = append(b.calls[at], made{plainName(c.In), plainName(c.Callee), c.Line, c.Kind})
		b.callers[at.caller] = true
	})
}

func (b *Build) readFunctions(ctx context.Context, t *gosym.Table, wanted func(string) bool) error {
	lines := 0
	err := t.Bodies(ctx, wanted, func(f gosym.Body) {
		name := plainName(f.Name)
		is := b.functions[name]
		is.first, is.assembly = f.StartLine, f.Assembly
		is.frame = max(is.frame, int64(f.Frame))
		b.functions[name] = is
		if f.StartLine > 0 {
			lines++
		}
	})
	if err == nil && len(b.functions) > 0 && lines == 0 {
		return ErrNoLines
	}
	return err
}

// has reports whether a function is in the build, in its own code or inlined.
func (b *Build) has(name string) bool {
	_, own := b.functions[name]
	return own || b.callers[name]
}

// does says how the build does a call.
type does struct {
	way       Way
	line      int32 // in the file; 0 where it is not known
	elsewhere bool  // alone where its caller was inlined
}

// does looks at the caller's own code, and at copies of the caller where it has none. On one line the best way counts.
func (b *Build) does(e Edge) does {
	caller, callee := plainName(e.Caller.Name), plainName(e.Callee.Name)
	all := b.calls[place{caller, e.Offset}]
	is := does{way: WayAbsent, elsewhere: true}
	for _, c := range all {
		is.elsewhere = is.elsewhere && c.in != caller
	}
	for _, c := range all {
		if !is.elsewhere && c.in != caller {
			continue
		}
		if way := c.way(callee); is.way.level() < way.level() {
			is.way, is.line = way, c.line
		}
	}
	return is
}

// way returns how a call reaches a callee.
func (c made) way(callee string) Way {
	switch {
	case c.callee == callee && c.kind == gosym.InlinedCall:
		return WayInlined
	case c.callee == callee, c.kind == gosym.RuntimeCall && (site{kind: ofRuntime}).reaches(callee) != never:
		return WayDirect
	case c.kind == gosym.IndirectCall, c.kind == gosym.OtherCall:
		return WayIndirect
	}
	return WayAbsent
}

// level orders ways: a build that listens goes up.
func (w Way) level() int {
	switch w {
	case WayIndirect:
		return 1
	case WayDirect:
		return 2
	case WayInlined:
		return 3
	}
	return 0
}
