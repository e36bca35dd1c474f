package gopgo

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

// Class says what became of a call in a newer program.
type Class string

// The classes. Those of a call that the compiler still finds come first.
const (
	SameBody Class = "same-body" // the caller's code has not changed
	OnLine   Class = "on-line"   // the caller's code has changed, or is not known; the call is on its line
	Indirect Class = "indirect"  // on its line is a call whose callee a program does not tell
	Moved    Class = "moved"     // the call is on other lines of the caller
	Renamed  Class = "renamed"   // the caller or the callee bears another name, and has the same code
	Gone     Class = "gone"      // the caller does not do the call, or is gone
	Unread   Class = "unread"    // the program does not tell of it: a package that is not there, a call without a line
)

// Classes lists all classes.
func Classes() []Class { return []Class{SameBody, OnLine, Indirect, Moved, Renamed, Gone, Unread} }

// Fits reports whether the compiler still finds calls of the class, as far as a program tells.
func (c Class) Fits() bool { return c == SameBody || c == OnLine || c == Indirect }

// Checked is a call of a profile, and what became of it.
type Checked struct {
	Edge
	Hot   bool
	Share int64 // what it weighs for people: samples, or ns in a minimal profile
	Class Class
	Now   Edge   // the call as the program has it, for a profile that fits it; weights as before
	Why   string // what is not clear of the class; "": nothing
}

// Lines returns by how many lines the call moved.
func (c Checked) Lines() int { return int(int32(c.Now.Offset - c.Offset)) }

// Check says of each call of a profile what became of it in a program. The result has the order of the edges.
func Check(calls Calls, p *Program) []Checked {
	all := make([]Checked, len(calls.Edges))
	for i, e := range calls.Edges {
		all[i] = p.classify(e)
		all[i].Hot, all[i].Share = i < calls.Hot, calls.weight(e)
	}
	p.followNeighbours(all)
	return all
}

// hasBody reports whether a body is known, and the only one of its name.
func hasBody(body uint64) bool { return body != 0 && body != ccmap.MixedBodies }

// classify says what became of a call.
func (p *Program) classify(e Edge) Checked {
	is := Checked{Edge: e, Now: e, Class: Gone}
	if p.unread != nil {
		if is.Why = p.unread(e); is.Why != "" {
			is.Class = Unread
			return is
		}
	}
	if e.Offset == ccmap.NoOffset {
		is.Class, is.Why = Unread, "its line is not known"
		return is
	}
	caller, callee := plainName(e.Caller.Name), plainName(e.Callee.Name)
	f, same := p.functions[caller], hasBody(e.Caller.Body) && p.bodies[e.Caller.Name] == e.Caller.Body
	if f == nil {
		p.rename(&is, nil)
		return is
	}
	switch how := f.at(e.Offset, callee); {
	case how != never && same:
		is.Class = SameBody
	case how == surely:
		is.Class = OnLine
	case p.rename(&is, f):
	case p.move(&is, f, callee, same || how == never && p.hasClosure(caller, callee)):
	case how == maybe:
		is.Class = Indirect
	case len(f.lines(callee, maybe)) > 0:
		is.Why = "the caller has calls on other lines whose callees are not known"
	}
	return is
}

// rename follows a caller or a callee that bears another name now. f is the caller, if it is there.
func (p *Program) rename(is *Checked, f *function) bool {
	if to := p.renamed(is.Caller); to != "" {
		is.Class, is.Now.Caller = Renamed, withName(is.Caller, to)
		return true
	}
	if to := p.renamed(is.Callee); to != "" && f != nil && f.at(is.Offset, plainName(to)) == surely {
		is.Class, is.Now.Callee = Renamed, withName(is.Callee, to)
		return true
	}
	if f == nil {
		is.Why = "the caller is gone"
	}
	return false
}

// renamed returns the function that has a method's body now, "" if it is not one function of another name. The method
// must be gone, or a closure: their names are numbers, and one that was added before another takes its name.
func (p *Program) renamed(m *ccmap.Method) string {
	_, stays := p.bodies[m.Name]
	if !hasBody(m.Body) || stays && (p.bodies[m.Name] == m.Body || !isClosure(m.Name)) {
		return ""
	}
	return p.same[m.Body]
}

// isClosure reports whether the last element of a name is a number of the compiler's.
func isClosure(name string) bool {
	last := lastName(name)
	return strings.TrimLeft(strings.TrimPrefix(last, "func"), "0123456789") == ""
}

func withName(m *ccmap.Method, name string) *ccmap.Method {
	now := *m
	now.Name = name
	return &now
}

// hasClosure reports whether a function still has a closure. Where it is no longer inlined, its call is one of a
// function value.
func (p *Program) hasClosure(caller, closure string) bool {
	return strings.HasPrefix(closure, caller+".") && isClosure(closure) && p.functions[closure] != nil
}

// move finds a call on other lines of its caller. A caller that has it for certain, as one whose code is the same, may
// have it where a program does not tell the callee, and nobody can tell several such calls apart.
func (p *Program) move(is *Checked, f *function, callee string, certain bool) bool {
	lines := f.lines(callee, surely)
	if len(lines) == 0 && certain {
		lines = f.lines(callee, maybe)
	}
	switch len(lines) {
	case 0:
		return false
	case 1:
		is.Now.Offset = lines[0]
	default:
		is.Why = fmt.Sprintf("on %d other lines", len(lines))
	}
	is.Class = Moved
	return true
}

// followNeighbours finds the new lines of calls that could be on several, or whose callees a program does not tell:
// where the calls before and after them in their caller moved by the same number of lines, they did so, too.
func (p *Program) followNeighbours(all []Checked) {
	anchors := make(map[*ccmap.Method][]Checked)
	for _, c := range all {
		if c.Class == SameBody || c.Class == OnLine || c.Class == Moved && c.Why == "" {
			anchors[c.Caller] = append(anchors[c.Caller], c)
		}
	}
	for i := range all {
		c := &all[i]
		if c.Why == "" && c.Class != Indirect || c.Class == Unread || c.Class == Renamed {
			continue
		}
		f := p.functions[plainName(c.Caller.Name)]
		by, between := shift(anchors[c.Caller], c.Offset)
		if f == nil || !between || by == 0 {
			continue
		}
		if f.at(c.Offset+by, plainName(c.Callee.Name)) != never {
			c.Class, c.Why, c.Now.Offset = Moved, "", c.Offset+by
		}
	}
}

// shift returns by how many lines the nearest calls before and after a line moved, if both moved by as many. A
// function's first line moves by none.
func shift(anchors []Checked, offset uint32) (lines uint32, both bool) {
	const first, none = 0, 1 << 30
	before, after := 0, none
	var byBefore, byAfter uint32
	for _, a := range anchors {
		at, by := int(int32(a.Offset)), a.Now.Offset-a.Offset
		if at <= int(int32(offset)) && at >= before {
			before, byBefore = at, by
		}
		if at >= int(int32(offset)) && at < after {
			after, byAfter = at, by
		}
	}
	return byBefore, after != none && byBefore == byAfter
}

// Tally is the weight of calls by class.
type Tally struct {
	Total int64 // of all classes but Unread
	Of    map[Class]int64
}

// TallyOf adds up the weights of calls; of hot ones alone, if that is asked for.
func TallyOf(all []Checked, hot bool) Tally {
	t := Tally{Of: make(map[Class]int64)}
	for _, c := range all {
		if hot && !c.Hot {
			continue
		}
		t.Of[c.Class] = add(t.Of[c.Class], c.Share)
		if c.Class != Unread {
			t.Total = add(t.Total, c.Share)
		}
	}
	return t
}

// Fits returns the weight of calls that the compiler still finds.
func (t Tally) Fits() (sum int64) {
	for class, weight := range t.Of {
		if class.Fits() {
			sum = add(sum, weight)
		}
	}
	return sum
}

// Calls are the calls of a profile that is to be checked.
type Calls struct {
	Edges   []Edge // in the compiler's order
	Hot     int    // of them, the first ones
	Ranks   bool   // weights are ranks: the profile is of [Minimal.Map]
	fillers []Edge
}

// CallsOf returns the calls of a profile, which may be minimal. Errors are those of [Edges].
func CallsOf(s *ccmap.Snapshot) (Calls, error) {
	edges, err := countEdges(s, BySamples)
	if err != nil {
		return Calls{}, err
	}
	c := Calls{Ranks: HasRanks(s.Meta())}
	for i, hot := 0, Hot(edges); i < len(edges); i++ {
		switch {
		case c.Ranks && strings.HasPrefix(edges[i].Callee.Name, fillerName):
			c.fillers = append(c.fillers, edges[i])
			continue
		case i < hot:
			c.Hot++
		}
		c.Edges = append(c.Edges, edges[i])
	}
	return c, nil
}

// weight returns what a call weighs for people.
func (c Calls) weight(e Edge) int64 {
	if c.Ranks {
		return e.Time
	}
	return e.Weight
}

// Heal returns the profile with calls as the program has them: moved ones on their lines, renamed ones by their names.
// Those that are gone stay: the compiler does not find them.
func (c Calls) Heal(checked []Checked, of ccmap.Meta) *ccmap.Map {
	to := ccmap.New(ccmap.Options{})
	put := func(e Edge) {
		if e.Offset != ccmap.NoOffset {
			addEdge(to, e.Caller, e.Callee, e.Offset, ccmap.Counters{Samples: e.Weight, Time: e.Time})
		}
	}
	for _, e := range checked {
		put(e.Now)
	}
	for _, e := range c.fillers {
		put(e)
	}
	of.Comments = slices.DeleteFunc(slices.Clone(of.Comments), func(s string) bool { return s == ranksMark })
	describe(to, of)
	if comments := to.Meta().Comments; !c.Ranks {
		comments[len(comments)-1] = "for go build -pgo alone: stacks have two frames; ccmapd pgo check --heal moved calls"
	}
	return to
}
