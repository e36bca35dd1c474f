package hotspot

import (
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/ccmapd/ccmapd/internal/jvm/javaname"
	"github.com/ccmapd/ccmapd/internal/jvm/jfr"
)

// Outcome says what became of a hint.
type Outcome string

// The outcomes.
const (
	NotCompiled Outcome = "not compiled" // C2 has not compiled the root since
	Taken       Outcome = "taken"
	Refused     Outcome = "refused"
	NotNeeded   Outcome = "not needed"   // the code that was compiled does not come to what is to be kept out
	NoCall      Outcome = "no such call" // in the code that was compiled
)

// Result is what became of a hint.
type Result struct {
	Hint
	Outcome      Outcome `json:"outcome"`      // taken, refused, not needed, no such call or not compiled
	Words        string  `json:"words"`        // of C2 about the call in the last compilation; a foreign text
	Compilations int     `json:"compilations"` // of the root by C2
	Thrown       int64   `json:"thrown_away"`  // compilations of the root that were thrown away since; thrown_before has the others
	Withdrawn    bool    `json:"withdrawn"`    // because of that
}

// settings are those of the events that tell what became of hints.
const settings = "+jdk.CompilerInlining#enabled=true +jdk.Compilation#enabled=true +jdk.Compilation#threshold=0ms " +
	"+jdk.Deoptimization#enabled=true +jdk.DataLoss#enabled=true"

// watch follows what the compiler does with hints.
type watch struct {
	changed chan struct{} // has a value when results may have changed
	settled chan struct{} // closed when each hint has an outcome

	mu      sync.Mutex // guards all below
	results []Result
	since   int64              // when the hints came into force, ns since 1970
	roots   map[string][]int64 // by the texts of roots, their compilations by C2, in the order of their ends
	seen    map[int64]*seen    // by the ids of compilations: of roots, and those whose end has not come
	wanted  map[string]bool    // by the texts of callees, the calls that outcomes are about
	calls   int                // that are kept
	lost    uint64             // bytes of events that the JVM has lost
}

// seen is what was heard of a compilation. Its calls and its end are events of one thread of
// the JVM, which may write them into pieces of the recording in either order.
type seen struct {
	of     string    // the text of its root; empty: its end has not come
	calls  []inlined // that are wanted
	called bool      // there are calls, wanted or not
	thrown bool      // the code was thrown away
}

// inlined says what C2 did with a call.
type inlined struct {
	caller, callee string
	bytecode       int64
	yes            bool
	words          string
}

// Bounds of what is kept: compilations, compilations of a root, calls, and bytes of the compiler's
// words about a call.
const mostSeen, mostOfRoot, mostCalls, longestWords = 1 << 12, 64, 1 << 16, 200

func newWatch(hints []Hint) *watch {
	w := &watch{
		changed: make(chan struct{}, 1), settled: make(chan struct{}),
		roots: make(map[string][]int64), seen: make(map[int64]*seen), wanted: make(map[string]bool),
	}
	for _, h := range hints {
		w.results = append(w.results, Result{Hint: h, Outcome: NotCompiled})
		w.roots[h.Root.String()] = nil
		w.wanted[h.Callee.String()], w.wanted[h.Caller.String()] = true, true
	}
	return w
}

// readPiece takes a piece of a chunk.
func (w *watch) readPiece(c *jfr.Chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, lost := c.Lost()
	w.lost += lost
	for e := range c.Events() {
		switch e.Type().Name {
		case "jdk.CompilerInlining":
			w.noteCall(e.Int("compileId"), decodeCall(e))
		case "jdk.Compilation":
			w.noteCompilation(decodeCompilation(e))
		case "jdk.Deoptimization":
			if slices.Contains(invalidating, e.Text("action")) {
				w.noteThrown(e.Int("compileId"))
			}
		}
	}
	w.judge()
	w.tell()
}

// tell tells those who wait.
func (w *watch) tell() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
	open := slices.ContainsFunc(w.results, func(r Result) bool { return r.Outcome == NotCompiled && !r.Withdrawn })
	select {
	case <-w.settled:
	default:
		if !open {
			close(w.settled)
		}
	}
}

func decodeCall(e jfr.Object) inlined {
	callee := e.Get("callee")
	return inlined{
		caller: text(e.Get("caller").Get("type").Text("name"), e.Get("caller")),
		callee: text(callee.Text("type"), callee),
		yes:    e.Bool("succeeded"), bytecode: e.Int("bci"), words: clip(e.Text("message")),
	}
}

func clip(words string) string { return words[:min(len(words), longestWords)] }

// text returns the text of a method that an event names.
func text(class string, method jfr.Object) string {
	return javaname.Class(class) + "." + method.Text("name") + method.Text("descriptor")
}

// noteCall notes what the compiler did with a call.
func (w *watch) noteCall(id int64, call inlined) {
	s := w.compilation(id)
	s.called = true
	if w.wanted[call.callee] && w.calls < mostCalls {
		s.calls = append(s.calls, call)
		w.calls++
	}
}

// compilation returns what was heard of a compilation. Compilers are few, so if there is no room,
// the oldest one whose end has not come has ended without a word.
func (w *watch) compilation(id int64) *seen {
	if s := w.seen[id]; s != nil {
		return s
	}
	if len(w.seen) >= mostSeen {
		oldest := int64(math.MaxInt64)
		for id, s := range w.seen {
			if s.of == "" {
				oldest = min(oldest, id)
			}
		}
		w.forget(oldest)
	}
	s := new(seen)
	w.seen[id] = s
	return s
}

func (w *watch) forget(id int64) {
	if s := w.seen[id]; s != nil {
		w.calls -= len(s.calls)
		delete(w.seen, id)
	}
}

// compiledMethod is a compilation that has ended.
type compiledMethod struct {
	id    int64
	root  string
	byC2  bool
	ok    bool
	begin int64 // ns since 1970
	level int64
	osr   bool // for a loop that runs
}

func decodeCompilation(e jfr.Object) compiledMethod {
	method := e.Get("method")
	return compiledMethod{
		level: e.Int("compileLevel"), osr: e.Bool("isOsr"),
		id: e.Int("compileId"), root: text(method.Get("type").Text("name"), method), begin: e.Time(),
		byC2: strings.EqualFold(e.Text("compiler"), "c2"), ok: e.Bool("succeded"), // which is how the JDK spells it
	}
}

// noteCompilation notes the end of a compilation. One that began before the hints were there
// says nothing of them.
func (w *watch) noteCompilation(c compiledMethod) {
	ids, has := w.roots[c.root]
	switch {
	case slices.Contains(ids, c.id):
		return
	case !has || !c.byC2 || !c.ok || w.since == 0 || c.begin < w.since:
		w.forget(c.id)
		return
	}
	w.compilation(c.id).of = c.root
	if len(ids) == mostOfRoot {
		w.forget(ids[0])
		ids = ids[1:]
	}
	w.roots[c.root] = append(ids, c.id)
	for i := range w.results {
		if r := &w.results[i]; r.Root.String() == c.root {
			r.Compilations++
		}
	}
}

// judge finds the outcome of each hint: what the last compilation of its root says. One of which no
// call is known says nothing: its calls may still come, and those of another are better.
func (w *watch) judge() {
	for i := range w.results {
		r := &w.results[i]
		thrown := int64(0)
		for _, id := range w.roots[r.Root.String()] {
			s := w.seen[id]
			if s.called {
				r.Outcome, r.Words = r.outcome(s.calls)
			}
			if s.thrown {
				thrown++
			}
		}
		r.Thrown = max(r.Thrown, thrown)
	}
}

// outcome returns what became of a hint in a compilation, and the compiler's words.
func (h Hint) outcome(calls []inlined) (o Outcome, words string) {
	o = NoCall
	if h.Action == KeepOut && h.reaches(calls) {
		o = NotNeeded
	}
	for _, c := range calls {
		if c.bytecode != int64(h.Bytecode) || c.caller != h.Caller.String() || c.callee != h.Callee.String() {
			continue
		}
		if c.yes != (h.Action == Inline) {
			return Refused, c.words
		}
		o, words = Taken, c.words
	}
	return o, words
}

// reaches reports whether the compiled code has the method that calls.
func (h Hint) reaches(calls []inlined) bool {
	return slices.ContainsFunc(calls, func(c inlined) bool {
		return h.Caller == h.Root || c.yes && c.callee == h.Caller.String()
	})
}

// invalidating are the actions after which the code is not entered any more
// (src/hotspot/share/runtime/deoptimization.hpp). The others keep it.
var invalidating = []string{"reinterpret", "make_not_entrant", "make_not_compilable"}

// noteThrown notes that the code of a compilation was thrown away. Each thread that was in the code
// says so.
func (w *watch) noteThrown(id int64) {
	if w.since > 0 {
		w.compilation(id).thrown = true
	}
}

// before notes how often code of roots, by their texts, had been thrown away before the hints came
// into force.
func (w *watch) before(thrown map[string]int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.results {
		r := &w.results[i]
		r.ThrownBefore = max(r.ThrownBefore, thrown[r.Root.String()])
	}
}

// inForce notes that the hints came into force at a time, ns since 1970.
func (w *watch) inForce(since int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = since
}

// exhausted marks hints that are to be withdrawn, and reports whether there are new ones.
func (w *watch) exhausted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	found := false
	for i := range w.results {
		if r := &w.results[i]; r.ThrownBefore+r.Thrown >= MostDecompiles && !r.Withdrawn {
			r.Withdrawn, found = true, true
		}
	}
	w.tell()
	return found
}

func (w *watch) bytesLost() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.lost
}

// remaining returns the hints that are to be in force.
func (w *watch) remaining() (hints []Hint) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.results {
		if !r.Withdrawn {
			hints = append(hints, r.Hint)
		}
	}
	return hints
}

// list returns a copy of the results. Code that was compiled, and of which no call has come, has
// none.
func (w *watch) list() []Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := slices.Clone(w.results)
	for i := range list {
		if r := &list[i]; r.Outcome == NotCompiled && r.Compilations > 0 {
			r.Outcome = NoCall
		}
	}
	return list
}
