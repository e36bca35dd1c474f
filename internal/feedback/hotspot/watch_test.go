package hotspot

import "testing"

// compile notes a compilation of circles.
func compile(w *watch, id int64, c compiledMethod, calls ...inlined) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, call := range calls {
		w.noteCall(id, call)
	}
	c.id = id
	w.noteCompilation(c)
	w.judge()
	w.tell()
}

func isSettled(w *watch) bool {
	select {
	case <-w.settled:
		return true
	default:
		return false
	}
}

const circles, call, square = "p.Work.circles([Lp/Work$Shape;I)I", "p.Work.call(Lp/Work$Shape;)I", "p.Work$Sq.<init>()V"

// Only compilations of the root by C2 count, that have begun since, and have come to an end.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	w := newWatch(workHints(t)[:2])
	w.inForce(100)
	yes, no := inlined{circles, call, 14, true, "force inline"}, inlined{call, square, 2, false, "disallowed"}
	for id, c := range []compiledMethod{
		{root: circles, byC2: true, ok: true, begin: 99},
		{root: circles, byC2: false, ok: true, begin: 101},
		{root: circles, byC2: true, ok: false, begin: 101},
		{root: call, byC2: true, ok: true, begin: 101},
	} {
		compile(w, int64(id), c, yes, no)
	}
	if got := w.list(); got[0].Outcome != NotCompiled || got[1].Outcome != NotCompiled || isSettled(w) {
		t.Fatalf("%+v", got)
	}
	in := compiledMethod{root: circles, byC2: true, ok: true, begin: 101}
	compile(w, 10, in, yes, no)
	if got := w.list(); got[0].Outcome != Taken || got[1].Outcome != Taken || got[0].Words != "force inline" || !isSettled(w) {
		t.Errorf("%+v", got)
	}
	compile(w, 11, in, inlined{circles, call, 14, false, "too deep"}, inlined{call, square, 9, false, "elsewhere"})
	if got := w.list(); got[0].Outcome != Refused || got[0].Words != "too deep" || got[1].Outcome != NoCall || got[1].Compilations != 2 {
		t.Errorf("compiled again: %+v", got)
	}
	compile(w, 12, in, yes)
	if got := w.list(); got[0].Outcome != Taken || got[1].Outcome != NotNeeded {
		t.Errorf("the callee that is to be kept out does not come up: %+v", got)
	}
}

// The calls of a compilation may come after its end, and one without any leaves the outcome as it was.
func TestCallsAfterTheEnd(t *testing.T) {
	t.Parallel()
	w := newWatch(workHints(t)[:2])
	w.inForce(100)
	in := compiledMethod{root: circles, byC2: true, ok: true, begin: 101}
	compile(w, 1, in)
	if got := w.list(); got[0].Outcome != NoCall || got[0].Compilations != 1 || isSettled(w) {
		t.Errorf("no calls yet: %+v", got)
	}
	w.mu.Lock()
	w.noteCall(1, inlined{circles, call, 14, true, "force inline"})
	w.noteCall(1, inlined{call, square, 2, false, "disallowed"})
	w.judge()
	w.tell()
	w.mu.Unlock()
	compile(w, 2, in)
	if got := w.list(); got[0].Outcome != Taken || got[1].Outcome != Taken || got[0].Compilations != 2 || !isSettled(w) {
		t.Errorf("%+v", got)
	}
}

// What the JVM has thrown away before counts, too.
func TestThrownBefore(t *testing.T) {
	t.Parallel()
	w := newWatch(workHints(t))
	w.before(map[string]int64{circles: MostDecompiles - 1})
	if w.exhausted() {
		t.Error("withdrawn before the limit")
	}
	w.before(map[string]int64{circles: MostDecompiles})
	if !w.exhausted() || len(w.remaining()) != 1 || w.remaining()[0].Root.String() == circles {
		t.Errorf("%+v", w.list())
	}
}

// Ten compilations that are thrown away are the end.
func TestThrownAway(t *testing.T) {
	t.Parallel()
	w := newWatch(workHints(t))
	w.inForce(100)
	for id := range int64(MostDecompiles) {
		if w.exhausted() {
			t.Fatalf("withdrawn after %d", id)
		}
		w.mu.Lock()
		w.noteThrown(id)
		w.noteThrown(id)        // by another thread
		w.noteThrown(id + 1000) // another method's
		w.mu.Unlock()
		compile(w, id, compiledMethod{root: circles, byC2: true, ok: true, begin: 101})
	}
	if !w.exhausted() || w.exhausted() || len(w.remaining()) != 1 || w.remaining()[0].Root.String() == circles {
		t.Errorf("%+v", w.list())
	}
}

// What never ends does not fill the memory, and what ended leaves none but of roots.
func TestCallsAreBounded(t *testing.T) {
	t.Parallel()
	w := newWatch(workHints(t))
	w.inForce(100)
	for id := range int64(2 * mostSeen) {
		w.noteCall(id, inlined{})
	}
	if len(w.seen) > mostSeen || w.seen[0] != nil {
		t.Errorf("%d compilations", len(w.seen))
	}
	for range 2 * mostCalls {
		w.noteCall(1, inlined{callee: call})
	}
	if len(w.seen[1].calls) != mostCalls || w.calls != mostCalls {
		t.Errorf("%d calls, %d in all", len(w.seen[1].calls), w.calls)
	}
	for id := range int64(2 * mostSeen) {
		w.noteCompilation(compiledMethod{id: id, root: circles, byC2: true, ok: true, begin: 101})
	}
	for id := range int64(mostSeen) {
		w.noteCompilation(compiledMethod{id: 2*mostSeen + id})
	}
	if len(w.seen) != mostOfRoot || w.calls != 0 {
		t.Errorf("%d compilations, %d calls", len(w.seen), w.calls)
	}
}
