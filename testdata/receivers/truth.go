package receivers

import "runtime"

// Truth is the calls of a run, counted by the program itself.
type Truth struct {
	Sites map[string]Site `json:"sites"` // by the name of the site's function in symbols
}

// Site is one call instruction.
type Site struct {
	Calls   int64    `json:"calls"`
	Rounds  int64    `json:"rounds"`
	Targets []Target `json:"targets"`
}

// Target is a site's target, for one dynamic type or function.
type Target struct {
	Wrapper string `json:"wrapper"` // the symbol that the call instruction calls
	Method  string `json:"method"`  // the symbol that does the work, as stacks have it: often the same
	// Caller is the only function that leads to this target: the caller of the
	// site's function for Depth 1, its caller for Depth 2 and so on. Depth 0: no caller
	// tells.
	Caller string `json:"caller,omitempty"`
	Depth  int    `json:"depth,omitempty"`
	Calls  int64  `json:"calls"`
	Rounds int64  `json:"rounds"` // of work: in proportion to CPU time
}

// counted is a target at a site.
type counted int

const (
	callQuartz counted = iota
	callSquare
	callCircle
	callCart
	callVan
	callStackInt
	callStackString
	callFirst
	callSecond
	callThird
	callSent     // for the first message, one caller deep
	countedCalls = callSent + counted(len(deliveries)*len(messages))
)

// sent returns the count of a message sent by the site whose function is depth calls
// below the caller.
func sent(depth int, message counted) counted {
	return callSent + counted((depth-1)*len(messages)) + message
}

const prefix = "github.com/ccmapd/ccmapd/testdata/receivers."

// description describes a count. Its symbols have no prefix.
type description struct {
	site, wrapper, method string
	caller                string
	depth                 int
}

var descriptions = [callSent]description{
	callQuartz:      {site: "monomorphic", wrapper: "(*quartz).tick", method: "(*quartz).tick"},
	callSquare:      {site: "bimorphic", wrapper: "(*square).area", method: "square.area"},
	callCircle:      {site: "bimorphic", wrapper: "(*circle).area", method: "circle.area"},
	callCart:        {site: "promoted", wrapper: "(*cart).drive", method: "(*base).drive"},
	callVan:         {site: "promoted", wrapper: "(*van).drive", method: "(*base).drive"},
	callStackInt:    {site: "generic", wrapper: "(*stack[int]).push", method: "(*stack[go.shape.int]).push"},
	callStackString: {site: "generic", wrapper: "(*stack[string]).push", method: "(*stack[go.shape.string]).push"},
	callFirst:       {site: "closure", wrapper: "functions.func1", method: "functions.func1"},
	callSecond:      {site: "closure", wrapper: "functions.func2", method: "functions.func2"},
	callThird:       {site: "closure", wrapper: "functions.func3", method: "functions.func3"},
}

// deliveries are the sites that send messages, by the depth of the caller.
var deliveries = [...]string{"deliver", "relayed", "forwarded"}

// messages are the sent messages, each with its one caller.
var messages = [...]struct{ method, caller string }{
	{"(*letter).send", "post"},
	{"(*parcel).send", "shop"},
	{"(*receipt).send", "bank"},
	{"(*alarm).send", "guard"},
}

func describe(c counted) description {
	if c < callSent {
		return descriptions[c]
	}
	depth, m := int(c-callSent)/len(messages), messages[int(c-callSent)%len(messages)]
	return description{site: deliveries[depth], wrapper: m.method, method: m.method, caller: m.caller, depth: depth + 1}
}

// tally counts the calls of one worker.
type tally [countedCalls]struct{ calls, rounds int64 }

// work counts a call and does its work. It is inlined into the target.
func (t *tally) work(c counted, rounds int) {
	t[c].calls++
	t[c].rounds += int64(rounds)
	runtime.KeepAlive(burn(rounds))
}

// burn takes CPU time in proportion to rounds: about 2 ns a round.
//
//go:noinline
func burn(rounds int) uint64 {
	x := uint64(rounds) | 1
	for range rounds {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	return x
}

// truth adds up the tallies.
func truth(tallies []tally) Truth {
	sites := make(map[string]Site)
	for c := range countedCalls {
		d := describe(c)
		to := Target{Wrapper: prefix + d.wrapper, Method: prefix + d.method, Depth: d.depth}
		if d.depth > 0 {
			to.Caller = prefix + d.caller
		}
		for i := range tallies {
			to.Calls += tallies[i][c].calls
			to.Rounds += tallies[i][c].rounds
		}
		s := sites[prefix+d.site]
		s.Calls += to.Calls
		s.Rounds += to.Rounds
		s.Targets = append(s.Targets, to)
		sites[prefix+d.site] = s
	}
	return Truth{Sites: sites}
}
