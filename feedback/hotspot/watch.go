package hotspot

import (
	"slices"
	"strings"
	"sync"

	"github.com/ccmapd/ccmapd/sampler/hotspot/javaname"
	"github.com/ccmapd/ccmapd/sampler/hotspot/jfr"
)

// Outcome says what became of a hint.
type Outcome string

// The outcomes.
const (
	NotCompiled Outcome = "not compiled" // C2 has not compiled the root since
	Taken       Outcome = "taken"
	Refused     Outcome = "refused"
	NoCall      Outcome = "no such call" // in the code that was compiled
)

// Result is what became of a hint.
type Result struct {
	Hint
	Outcome      Outcome
	Words        string // of C2 about the call in the last compilation; a foreign text
	Compilations int    // of the root by C2
	Thrown       int    // compilations of the root that were thrown away since
	Withdrawn    bool   // because of that
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
	since   int64               // when the hints came into force, ns since 1970
	roots   map[string]int64    // by the texts of roots, the last compilation by C2
	calls   map[int64][]inlined // by compilation, of those whose end has not come
	lost    uint64              // bytes of events that the JVM has lost
}

// inlined says what C2 did with a call.
type inlined struct {
	caller, callee string
	bytecode       int64
	yes            bool
	words          string
}

// Bounds of what is kept of compilations whose end has not come.
const mostCompilations, mostCalls = 256, 4096

func newWatch(hints []Hint) *watch {
	w := &watch{
		changed: make(chan struct{}, 1), settled: make(chan struct{}),
		roots: make(map[string]int64), calls: make(map[int64][]inlined),
	}
	for _, h := range hints {
		w.results = append(w.results, Result{Hint: h, Outcome: NotCompiled})
		w.roots[h.Root.String()] = -1
	}
	return w
}

// take takes a piece of a chunk. A compilation's calls come before its end.
func (w *watch) take(c *jfr.Chunk) {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, lost := c.Lost()
	w.lost += lost
	for e := range c.Events() {
		if e.Type().Name == "jdk.CompilerInlining" {
			w.noteCall(e.Int("compileId"), decodeCall(e))
		}
	}
	for e := range c.Events() {
		switch e.Type().Name {
		case "jdk.Compilation":
			w.noteCompilation(decodeCompilation(e))
		case "jdk.Deoptimization":
			if slices.Contains(invalidating, e.Text("action")) {
				w.noteThrown(e.Int("compileId"))
			}
		}
	}
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
		yes:    e.Bool("succeeded"), bytecode: e.Int("bci"), words: e.Text("message"),
	}
}

// text returns the text of a method that an event names.
func text(class string, method jfr.Object) string {
	return javaname.Class(class) + "." + method.Text("name") + method.Text("descriptor")
}

// noteCall notes what the compiler did with a call.
func (w *watch) noteCall(id int64, call inlined) {
	if _, known := w.calls[id]; !known && len(w.calls) >= mostCompilations {
		clear(w.calls) // compilers are few, so these have ended without a word
	}
	if len(w.calls[id]) < mostCalls {
		w.calls[id] = append(w.calls[id], call)
	}
}

// compilation is one that has ended.
type compilation struct {
	id    int64
	root  string
	byC2  bool
	ok    bool
	begin int64 // ns since 1970
}

func decodeCompilation(e jfr.Object) compilation {
	method := e.Get("method")
	return compilation{
		id: e.Int("compileId"), root: text(method.Get("type").Text("name"), method), begin: e.Time(),
		byC2: strings.EqualFold(e.Text("compiler"), "c2"), ok: e.Bool("succeded"), // which is how the JDK spells it
	}
}

// noteCompilation notes the end of a compilation. One that began before the hints were there
// says nothing of them.
func (w *watch) noteCompilation(c compilation) {
	calls := w.calls[c.id]
	delete(w.calls, c.id)
	if _, has := w.roots[c.root]; !has || !c.byC2 || !c.ok {
		return
	}
	w.roots[c.root] = c.id
	if w.since == 0 || c.begin < w.since {
		return
	}
	for i := range w.results {
		if r := &w.results[i]; r.Root.String() == c.root {
			r.note(calls)
		}
	}
}

// note notes a compilation of the root.
func (r *Result) note(calls []inlined) {
	r.Compilations++
	r.Outcome, r.Words = NoCall, ""
	for _, c := range calls {
		if c.bytecode != int64(r.Bytecode) || c.caller != r.Caller.String() || c.callee != r.Callee.String() {
			continue
		}
		r.Words = c.words
		if c.yes != (r.Action == Inline) {
			r.Outcome = Refused
			return
		}
		r.Outcome = Taken
	}
}

// invalidating are the actions after which the code is not entered any more
// (src/hotspot/share/runtime/deoptimization.hpp). The others keep it.
var invalidating = []string{"reinterpret", "make_not_entrant", "make_not_compilable"}

// noteThrown notes that the code of a compilation was thrown away.
func (w *watch) noteThrown(id int64) {
	for i := range w.results {
		if r := &w.results[i]; w.roots[r.Root.String()] == id {
			r.Thrown++
		}
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
		if r := &w.results[i]; r.Thrown >= MostDecompiles && !r.Withdrawn {
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

// list returns a copy of the results.
func (w *watch) list() []Result {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.results)
}
