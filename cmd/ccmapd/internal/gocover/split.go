package gocover

import (
	"fmt"
	"slices"
)

// Split explains the blocks of a function with its source file. It returns the function
// with its own blocks, branches and switches, and then each function literal in it as a
// function, in the order of the source. Line is the line of the declaration. Split
// reports whether the function in this file is the function of the program. If not, the
// source is a different file, or was edited.
//
// In mode set there are no branches and no switches: see the package documentation.
func (s *Source) Split(f Function, mode Mode) ([]Function, bool) {
	if !s.has(f) {
		return nil, false
	}
	o := s.functions[f.Blocks[0].Start]
	blocks := slices.Clone(f.Blocks)
	slices.SortStableFunc(blocks, func(a, b Block) int { return a.Start.compare(b.Start) })
	owned := make(map[*outline][]Block)
	for _, b := range blocks {
		owner := o.owner(b.Start)
		owned[owner] = append(owned[owner], b)
	}
	if o.name != "" {
		f.Name, f.Receiver = o.name, o.receiver
	}
	p := splitter{owned: owned, choices: mode != ModeSet}
	p.addFunction(o, f)
	return p.functions, true
}

// has reports whether the blocks of a function are blocks of the source.
func (s *Source) has(f Function) bool {
	if len(f.Blocks) == 0 || s.functions[f.Blocks[0].Start] == nil {
		return false
	}
	for _, b := range f.Blocks {
		if !s.starts[b.Start] {
			return false
		}
	}
	return true
}

// owner returns the innermost function around a position.
func (o *outline) owner(p Position) *outline {
	i, found := slices.BinarySearchFunc(o.literals, p, func(l *outline, p Position) int {
		switch {
		case l.end.compare(p) <= 0:
			return -1
		case l.start.compare(p) > 0:
			return 1
		}
		return 0
	})
	if !found {
		return o
	}
	return o.literals[i].owner(p)
}

// splitter makes functions of outlines.
type splitter struct {
	owned     map[*outline][]Block // in the order of the source
	choices   bool
	functions []Function
}

// addFunction completes a function with its outline and adds it, then adds the literals in it.
// The compiler numbers literals in the function around them: "F.func1", and inside of
// that "F.func1.1".
func (p *splitter) addFunction(o *outline, f Function) {
	f.Line, f.Blocks = o.line, p.owned[o]
	if p.choices {
		f.addChoices(o.choices)
	}
	p.functions = append(p.functions, f)
	suffix := ".func"
	if f.literal {
		suffix = "."
	}
	for i, l := range o.literals {
		p.addFunction(l, Function{Name: fmt.Sprintf("%s%s%d", f.Name, suffix, i+1), File: f.File, literal: true})
	}
}

// addChoices finds the counts of choices. It omits a choice without arms. It also omits
// a choice without a block of its own: a line directive can give two statements the same
// position.
func (f *Function) addChoices(choices []choice) {
	for _, c := range choices {
		header := f.blockAt(c.start)
		arms, ok := f.armCounts(c.arms)
		if header == nil || !ok || len(arms) == 0 {
			continue
		}
		if c.isIf {
			f.Branches = append(f.Branches, newBranch(c, header.Count, arms))
		} else {
			f.Switches = append(f.Switches, newSwitch(c, header.Count, arms))
		}
	}
}

func newBranch(c choice, reached uint64, arms []uint64) Branch {
	b := Branch{Start: c.start, End: c.end, Taken: arms[0]}
	if len(arms) > 1 {
		b.Untaken = arms[1]
	} else {
		b.Untaken = without(reached, b.Taken)
	}
	return b
}

func newSwitch(c choice, reached uint64, arms []uint64) Switch {
	s := Switch{Start: c.start, End: c.end}
	for i, count := range arms {
		s.Cases = append(s.Cases, Case{c.arms[i].line, count})
		reached = without(reached, count)
	}
	if c.open {
		s.None = reached
	}
	return s
}

// armCounts returns the number of times that each arm was chosen.
func (f *Function) armCounts(arms []arm) ([]uint64, bool) {
	counts := make([]uint64, len(arms))
	for i, a := range arms {
		first := f.blockAt(a.start)
		if first == nil || first.Start != a.start {
			return nil, false
		}
		counts[i] = first.Count
		if from := f.blockAt(a.from); from != nil {
			counts[i] = without(counts[i], from.Count)
		}
	}
	return counts, true
}

// blockAt returns the block around a position, or nil.
func (f *Function) blockAt(p Position) *Block {
	i, found := slices.BinarySearchFunc(f.Blocks, p, func(b Block, p Position) int { return b.Start.compare(p) })
	if !found {
		i--
	}
	if i < 0 || !found && p.compare(f.Blocks[i].End) >= 0 {
		return nil
	}
	return &f.Blocks[i]
}

// without subtracts counts. A part can exceed the whole if the program was running when
// the counts were written.
func without(all, part uint64) uint64 { return all - min(all, part) }
