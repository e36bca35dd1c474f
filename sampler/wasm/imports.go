package wasm

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

// imports is what an instance learns of the functions that its module imports: which
// of them call back. Those are announced before they are called, so that the stack
// below the call back is known; for the others that would be a waste.
type imports struct {
	uses     []use // by imported function
	patience int   // calls after which one that has not called back is announced no more
	untold   bool  // some call back untold: all are announced, or nothing told which one
}

// use is what was seen of an imported function.
type use struct {
	calls int // that were announced
	back  bool
}

const (
	firstPatience = 8
	mostPatience  = 1 << 12
)

func (im *imports) init(m *module) {
	im.uses = make([]use, m.rewritten.Imported)
	im.patience = firstPatience
}

func (im *imports) calledBack(k uint32) { im.uses[k].back = true }

// announces reports whether calls of an imported function are to be announced: it
// may call back, as any may but WASI's, or every call is recorded.
func (p *Profiler) announces(module, _ string) bool {
	return p.exact != nil || module != "wasi_snapshot_preview1" && module != "wasi_unstable"
}

// announced notes the stack below a call of an imported function that may call back.
// That it has returned is seen at the safe point behind it, for which the guest is
// marked.
func (in *instance) announced(k uint32, number int, stack experimental.StackIterator) {
	in.dropOthers(stack)
	in.arrive(stack, number)
	defer in.walk.end()
	if len(in.entries) == 0 {
		return
	}
	e := &in.entries[len(in.entries)-1]
	e.calling, e.host, e.hostMark = true, k, managed.Mark{}
	in.note(e)
	in.poll()
	u := &in.imports.uses[k]
	u.calls++
	if u.calls > in.imports.patience && !u.back && !in.imports.untold {
		in.announce.Set(in.announce.Get() &^ in.module.rewritten.Announced[k])
	}
}

// note keeps the frames of the innermost segment, without the one that a tail call
// replaces: then Depth, which the guest has set for the call, leaves it out.
func (in *instance) note(e *entered) {
	w := &in.walk
	e.depth, e.frames, e.cut = w.number, e.frames[:0], e.direct
	at, more := w.top, w.more
	if in.readDepth() == w.number-1 {
		e.depth--
		at, more = in.next(w.stack)
	}
	for number := e.depth; number > e.base; at, more = in.next(w.stack) {
		if !more || at.foreign {
			e.cut = true
			return
		}
		if !at.added {
			e.frames = append(e.frames, at.frame)
			number--
		}
	}
}

// announceAll has all imports announced, because one that was not has called back.
func (in *instance) announceAll() {
	im := &in.imports
	im.patience = min(4*im.patience, mostPatience)
	for k := range im.uses {
		im.uses[k].calls = 0
	}
	in.announce.Set(1<<64 - 1)
}
