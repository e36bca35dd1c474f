package hotspot

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Compilations watches the compilers of a running JVM, by its events: about once a second the JVM writes what they did.
//
//	Pattern … Queue  never change once Watch runs; called by one goroutine
//	all others       under mu
type Compilations struct {
	// Pattern chooses the methods that Record gets: "com.acme.*" are those whose class and name, "com.acme.Cart.add",
	// begin so. "*" is any text. Empty: none.
	Pattern string
	// Record gets the records of methods that were compiled at levels 3 and 4, each once. Nil: none are made.
	Record func([]compilation.Record)
	// Deopt hears of each deoptimization, Queue of the compilers' queues (JDK 25). Nil: not.
	Deopt func(Deoptimization)
	Queue func(Queue)

	mu      sync.Mutex
	pending map[int64]*pendingCompilation // by id
	done    map[int64]bool                // ids that have a record: events of a piece may come twice
	thrown  map[string]int64              // by the text of methods, how often their code was thrown away
	deopts  int64
	lost    uint64
}

// pendingCompilation is what was heard of a compilation that has no record yet.
type pendingCompilation struct {
	ended  *compilation.Record // nil: its end has not come
	calls  []compilation.Call
	pieces int // since its end: calls may come in the next one
}

// Deoptimization is a return of a thread to the interpreter.
type Deoptimization struct {
	Method, Reason, Action string
	Bytecode               int64
	Total                  int64 // of all so far
}

// Queue is a compiler's queue.
type Queue struct {
	Compiler           string
	Size, Peak, Adding int64 // methods now; at most, since the last; methods that were added since the last
}

// settingsOfQueue are of an event that JDK 25 has; others do not know it.
const settingsOfQueue = " +jdk.CompilerQueueUtilization#enabled=true +jdk.CompilerQueueUtilization#period=1s"

// Watch watches the JVM of a process until the context is done or the JVM has ended. It takes the JVM's user or root.
// Errors wrap those of package sampler.
func (c *Compilations) Watch(ctx context.Context, pid int) error {
	wanted := settings
	if c.Queue != nil {
		wanted += settingsOfQueue
	}
	r, err := engine.Record(ctx, pid, wanted)
	if err != nil {
		return fmt.Errorf("watch compilations: %w", err)
	}
	exited, err := r.Run(ctx, c.readPiece)
	c.flush(math.MaxInt)
	if exited || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Deopts returns how many deoptimizations there were.
func (c *Compilations) Deopts() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.deopts
}

// Lost returns how many bytes of events the JVM says it has lost: with them compilations can be.
func (c *Compilations) Lost() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

// readPiece takes a piece of a chunk.
func (c *Compilations) readPiece(chunk *jfr.Chunk) {
	_, lost := chunk.Lost()
	c.mu.Lock()
	c.lost += lost
	c.mu.Unlock()
	for e := range chunk.Events() {
		switch e.Type().Name {
		case "jdk.CompilerInlining":
			c.noteCall(e.Int("compileId"), decodeCall(e))
		case "jdk.Compilation":
			c.noteEnd(decodeCompilation(e))
		case "jdk.Deoptimization":
			method := e.Get("method")
			c.noteDeopt(Deoptimization{
				Method: text(method.Get("type").Text("name"), method), Reason: clip(e.Text("reason")),
				Action: clip(e.Text("action")), Bytecode: e.Int("bci"),
			})
		case "jdk.CompilerQueueUtilization":
			if c.Queue != nil {
				c.Queue(Queue{clip(e.Text("compiler")), e.Int("queueSize"), e.Int("peakQueueSize"), e.Int("addedCount")})
			}
		}
	}
	c.flush(1)
}

// noteCall notes a call that a compiler came to.
func (c *Compilations) noteCall(id int64, call inlined) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Record == nil || c.done[id] {
		return
	}
	p := c.of(id)
	if len(p.calls) < compilation.MostCalls {
		p.calls = append(p.calls, compilation.Call{
			Caller: call.caller, Callee: call.callee, Offset: int(call.bytecode), Inlined: call.yes, Words: call.words,
		})
	}
}

// of returns what was heard of a compilation. If there is no room, the oldest ones have ended without a word.
func (c *Compilations) of(id int64) *pendingCompilation {
	if c.pending == nil {
		c.pending, c.done = make(map[int64]*pendingCompilation), make(map[int64]bool)
	}
	p := c.pending[id]
	if p == nil {
		for len(c.pending) >= mostPending {
			delete(c.pending, oldest(c.pending))
		}
		p = new(pendingCompilation)
		c.pending[id] = p
	}
	return p
}

// mostPending bounds compilations without a record: compilers are few.
const mostPending, mostDone = 1 << 10, 1 << 14

func oldest[V any](m map[int64]V) int64 {
	least := int64(math.MaxInt64)
	for id := range m {
		least = min(least, id)
	}
	return least
}

// noteEnd notes the end of a compilation.
func (c *Compilations) noteEnd(end compiledMethod) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.Record == nil || c.done[end.id] {
		return
	}
	m, err := ParseMethod(end.root)
	if !end.ok || end.level < compilation.LevelProfiled || err != nil || !matches(c.Pattern, m.Short()) {
		delete(c.pending, end.id)
		return
	}
	r := &compilation.Record{
		Method: compilation.Method{Name: m.Short(), Signature: m.Descriptor}, Time: end.begin, Level: int(end.level),
		OSR: compilation.NoOSR, Thrown: c.thrown[end.root],
	}
	if end.osr {
		r.OSR = compilation.OSRUnknown
	}
	c.of(end.id).ended = r
}

// noteDeopt notes a deoptimization.
func (c *Compilations) noteDeopt(d Deoptimization) {
	c.mu.Lock()
	c.deopts++
	d.Total = c.deopts
	if slices.Contains(invalidating, d.Action) && (c.thrown[d.Method] > 0 || len(c.thrown) < mostDone) {
		if c.thrown == nil {
			c.thrown = make(map[string]int64)
		}
		c.thrown[d.Method]++
	}
	c.mu.Unlock()
	if c.Deopt != nil {
		c.Deopt(d)
	}
}

// flush gives away the records whose ends are so many pieces old.
func (c *Compilations) flush(age int) {
	c.mu.Lock()
	var records []compilation.Record
	for id, p := range c.pending {
		if p.ended == nil {
			continue
		}
		if p.pieces++; p.pieces <= age && age != math.MaxInt {
			continue
		}
		p.ended.Calls = p.calls
		records = append(records, *p.ended)
		delete(c.pending, id)
		for len(c.done) >= mostDone {
			delete(c.done, oldest(c.done))
		}
		c.done[id] = true
	}
	c.mu.Unlock()
	slices.SortStableFunc(records, func(a, b compilation.Record) int { return int(a.Time - b.Time) })
	if len(records) > 0 {
		c.Record(records)
	}
}

// matches reports whether a text is what a pattern means, in which "*" is any text.
func matches(pattern, text string) bool {
	first, rest, wild := strings.Cut(pattern, "*")
	after, begins := strings.CutPrefix(text, first)
	switch {
	case pattern == "" || !begins:
		return false
	case !wild:
		return after == ""
	case rest == "":
		return true
	}
	for i := range len(after) + 1 {
		if matches(rest, after[i:]) {
			return true
		}
	}
	return false
}
