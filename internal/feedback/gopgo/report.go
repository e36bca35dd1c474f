package gopgo

import "strings"

// Outcome says what became of what a profile asks for at a call. The words are those of hints for JVMs.
type Outcome string

// The outcomes.
const (
	Taken     Outcome = "taken"        // the new build inlines the call, or calls directly what the old one does not
	NotNeeded Outcome = "not needed"   // the old build inlines it, too
	Refused   Outcome = "refused"      // the new build calls as the old one does
	Undone    Outcome = "undone"       // the old build inlines, or calls directly, what the new one does not
	NoCall    Outcome = "no such call" // the new build has no such call on this line
)

// Outcomes lists all outcomes.
func Outcomes() []Outcome { return []Outcome{Taken, NotNeeded, Refused, Undone, NoCall} }

// Decision is what became of one call.
type Decision struct {
	Edge
	Hot      bool
	Share    int64 // what it weighs for people: samples, or ns of a minimal profile
	Old, New Way
	Outcome  Outcome
	Reason   Reason // of Refused, Undone and NoCall; the zero value of others
	Words    string // of the compiler on it, a foreign text; "" if it says nothing
}

// Devirtualized reports whether the new build calls, or inlines, by name what the old one calls indirectly.
func (d Decision) Devirtualized() bool { return d.Old == WayIndirect && d.New.level() > d.Old.level() }

// Reason says why the compiler does not do what a profile asks for.
type Reason struct {
	Text  string
	Issue string // of golang/go, as "#64676"; "": it is no shortcoming that has one
}

// The reasons.
var (
	TooComplex     = Reason{"the callee is too large, even for a hot call", ""}
	NotInlinable   = Reason{"the callee cannot be inlined", ""}
	BigCaller      = Reason{"the caller is a big function", ""}
	CallsItself    = Reason{"the function calls itself", ""}
	OfAssembly     = Reason{"the callee is written in assembly", ""}
	OfCompiler     = Reason{"the compiler adds the call", ""}
	CallerInlined  = Reason{"the caller is inlined, where the profile is not asked", ""}
	NotExported    = Reason{"the callee is not in the export data", "#64676"}
	IsGeneric      = Reason{"the callee's type is a type parameter", "#68787"}
	IsClosure      = Reason{"the callee is a closure", "#64675"}
	IsMethodValue  = Reason{"the callee is a method, called as a function value", "#61577"}
	NotImplemented = Reason{"the callee's type does not have all methods of the interface", "#64673"}
	OfAnotherCall  = Reason{"the callee is another call's of the line", ""}
	Colder         = Reason{"another callee of the line has more samples", ""}
	NoWeight       = Reason{"the call has weight 0", "#72092"}
	NotOnLine      = Reason{"the line has no such call: 'ccmapd pgo check' says where it is", ""}
	NotTold        = Reason{"the compiler does not say", ""}
)

// Report says what two builds of a program do with each call that a profile asks about: hot ones, and those that
// are indirect. The compiler's own words may be missing. The result has the order of the edges.
func Report(calls Calls, older, newer *Build, said *Diagnostics) []Decision {
	var all []Decision
	hottest := hottestOfLines(calls.Edges)
	for i, e := range calls.Edges {
		was, is := older.does(e), newer.does(e)
		d := Decision{Edge: e, Hot: i < calls.Hot, Share: calls.weight(e), Old: was.way, New: is.way, Outcome: outcomeOf(was.way, is.way)}
		isAsked := d.Hot || was.way == WayIndirect || is.way == WayIndirect
		if !isAsked && (d.Outcome != Undone || !newer.has(plainName(e.Caller.Name))) {
			continue
		}
		if d.Outcome == Refused || d.Outcome == Undone || d.Outcome == NoCall {
			d.Reason, d.Words = newer.why(e, is, said)
			if d.Reason == NotTold && is.way == WayIndirect && hottest[placeOf(e)] != plainName(e.Callee.Name) {
				d.Reason = Colder
			}
		}
		all = append(all, d)
	}
	return all
}

// outcomeOf compares the ways of two builds.
func outcomeOf(was, is Way) Outcome {
	switch {
	case is == WayAbsent:
		return NoCall
	case is.level() > was.level() && is != WayIndirect && (was != WayAbsent || is == WayInlined):
		return Taken
	case is.level() < was.level():
		return Undone
	case is == WayInlined:
		return NotNeeded
	}
	return Refused
}

func placeOf(e Edge) place { return place{plainName(e.Caller.Name), e.Offset} }

// hottestOfLines returns the heaviest callee of each line. Edges are in the compiler's order.
func hottestOfLines(edges []Edge) map[place]string {
	hottest := make(map[place]string)
	for _, e := range edges {
		if _, known := hottest[placeOf(e)]; !known {
			hottest[placeOf(e)] = plainName(e.Callee.Name)
		}
	}
	return hottest
}

// why says why a call is as it is: in the compiler's words, or by what the build tells alone.
func (b *Build) why(e Edge, is does, said *Diagnostics) (Reason, string) {
	switch {
	case is.way != WayIndirect && isAdded(e):
		return OfCompiler, ""
	case is.way == WayAbsent:
		return NotOnLine, ""
	case is.way == WayDirect && b.functions[plainName(e.Callee.Name)].assembly:
		return OfAssembly, ""
	}
	if reason, words := said.on(e, is); reason != (Reason{}) {
		return reason, words
	}
	switch {
	case is.way == WayDirect && plainName(e.Caller.Name) == plainName(e.Callee.Name):
		return CallsItself, ""
	case is.elsewhere:
		return CallerInlined, ""
	case is.way == WayIndirect && isClosure(e.Callee.Name):
		return IsClosure, ""
	}
	return NotTold, ""
}

// isAdded reports whether the compiler adds a call, after it has inlined all that it inlines: one of a function of
// the runtime that a source cannot name.
func isAdded(e Edge) bool {
	callee := plainName(e.Callee.Name)
	name := lastName(callee)
	return isRuntime(packageOf(callee)) && !isRuntime(packageOf(e.Caller.Name)) && name != "" && name == strings.ToLower(name[:1])+name[1:]
}

// Grown is what something takes in two builds.
type Grown struct {
	Old int64 `json:"old"`
	New int64 `json:"new"`
}

// Frame is the stack that an execution of a function takes, bytes.
type Frame struct {
	Function string `json:"function"`
	Grown
}

// Frames returns the frames of callers of hot calls that two builds have with another size, in the order of the edges.
func Frames(calls Calls, older, newer *Build) (all []Frame) {
	done := make(map[string]bool)
	for _, e := range calls.Edges[:calls.Hot] {
		name := plainName(e.Caller.Name)
		was, is := older.functions[name], newer.functions[name]
		if done[name] || was.frame == is.frame || was.frame == 0 || is.frame == 0 {
			continue
		}
		done[name] = true
		all = append(all, Frame{name, Grown{was.frame, is.frame}})
	}
	return all
}
