package gopgo

import (
	"context"
	"fmt"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
)

// Binary reads from a program on disk what it has of a profile's calls, out of the tables of its functions and
// its code: nothing of it is run. Errors wrap those of [gosym.OpenFile] and [gosym.Table.Calls], [ErrNoLines] and
// [ErrOtherProgram].
func Binary(ctx context.Context, path string, edges []Edge) (*Program, error) {
	t, err := gosym.OpenFile(ctx, path, gosym.Options{})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	p := &Program{From: path, Go: t.GoVersion(), functions: make(map[string]*function), bodies: make(map[string]uint64)}
	callers, all := namesOf(edges)
	if err := p.readCalls(ctx, t, callers); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := p.readBodies(ctx, t, all); err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	if err := p.checkOwn(edges); err != nil {
		return nil, err
	}
	if !p.knowsBodies(edges) {
		if err := p.readAllBodies(ctx, t); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	return p, nil
}

// namesOf returns the plain names of callers, and of all functions.
func namesOf(edges []Edge) (callers, all map[string]bool) {
	callers, all = make(map[string]bool), make(map[string]bool)
	for _, e := range edges {
		callers[plainName(e.Caller.Name)] = true
		all[plainName(e.Callee.Name)] = true
		all[plainName(e.Caller.Name)] = true
	}
	return callers, all
}

// remembering asks a question once for each name.
func remembering(ask func(name string) bool) func(name string) bool {
	known := make(map[string]bool)
	return func(name string) bool {
		answer, asked := known[name]
		if !asked {
			answer = ask(name)
			known[name] = answer
		}
		return answer
	}
}

// readCalls reads the calls of functions.
func (p *Program) readCalls(ctx context.Context, t *gosym.Table, callers map[string]bool) error {
	wanted := remembering(func(name string) bool { return callers[plainName(name)] })
	seen := make(map[gosym.Call]bool)
	return t.Calls(ctx, wanted, func(c gosym.Call) {
		if c.In = ""; seen[c] {
			return
		}
		seen[c] = true
		found := site{c.Offset, plainName(c.Callee), named}
		switch c.Kind {
		case gosym.IndirectCall, gosym.OtherCall:
			p.add(plainName(c.Caller), site{c.Offset, "", anything})
		case gosym.RuntimeCall:
			p.add(plainName(c.Caller), site{c.Offset, "", ofRuntime})
		case gosym.InlinedCall:
			if callers[found.callee] {
				p.function(found.callee)
			}
		}
		if found.callee != "" {
			p.add(plainName(c.Caller), found)
		}
	})
}

// readBodies reads the bodies of functions.
func (p *Program) readBodies(ctx context.Context, t *gosym.Table, wanted map[string]bool) error {
	lines, functions := 0, 0
	err := t.Bodies(ctx, remembering(func(name string) bool { return wanted[plainName(name)] }), func(f gosym.Body) {
		if functions++; f.StartLine > 0 {
			lines++
		}
		p.bodies[f.Name] = f.Hash
		p.function(plainName(f.Name))
	})
	if err == nil && functions > 0 && lines == 0 {
		return ErrNoLines
	}
	return err
}

// knowsBodies reports whether all functions of a profile that have bodies have them here, too.
func (p *Program) knowsBodies(edges []Edge) bool {
	for _, e := range edges {
		for _, m := range []*ccmap.Method{e.Caller, e.Callee} {
			if hasBody(m.Body) && p.bodies[m.Name] != m.Body {
				return false
			}
		}
	}
	return true
}

// readAllBodies finds functions that bear another name now.
func (p *Program) readAllBodies(ctx context.Context, t *gosym.Table) error {
	p.same = make(map[uint64]string)
	return t.Bodies(ctx, func(string) bool { return true }, func(f gosym.Body) {
		if before, twice := p.same[f.Hash]; twice && before != f.Name {
			f.Name = ""
		}
		p.same[f.Hash] = f.Name
	})
}

// checkOwn returns [ErrOtherProgram] if no function of the program itself that the profile has is here.
func (p *Program) checkOwn(edges []Edge) error {
	return checkOwn(edges, p.From, func(name string) bool { return p.functions[name] != nil })
}

func checkOwn(edges []Edge, from string, has func(name string) bool) error {
	asked := ""
	for _, e := range edges {
		name := plainName(e.Caller.Name)
		switch {
		case isStandard(packageOf(name)), name == "main.main":
		case has(name):
			return nil
		default:
			asked = name
		}
	}
	if asked == "" {
		return nil
	}
	return fmt.Errorf("%w: %s has no function of it, for example %s", ErrOtherProgram, from, asked)
}
