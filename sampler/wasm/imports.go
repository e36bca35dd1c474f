package wasm

import (
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/managed"
)

// imports records which imported functions of an instance call back. Those are announced
// before they are called, so that the stack below the call back is known. Announcing the
// others would be a waste.
type imports struct {
	uses       []use // by imported function
	backOff    int   // calls without a call back, after which a function is not announced
	unreported bool  // an unknown function calls back unreported: all are announced
}

// use is the history of an imported function.
type use struct {
	calls int // announced ones
	back  bool
}

const (
	firstBackOff = 8
	mostBackOff  = 1 << 12
)

func (im *imports) init(m *module) {
	im.uses = make([]use, m.rewritten.Imported)
	im.backOff = firstBackOff
}

func (im *imports) calledBack(k uint32) { im.uses[k].back = true }

// announces reports whether calls of an imported function are announced. Any function but
// WASI's may call back; in an exact profile all are announced.
func (p *Profiler) announces(module, _ string) bool {
	return p.exact != nil || module != "wasi_snapshot_preview1" && module != "wasi_unstable"
}

// announced notes the stack below a call of an imported function that may call back. The
// guest is marked, so the safe point after the call shows that it has returned.
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
	if u.calls > in.imports.backOff && !u.back && !in.imports.unreported {
		in.announce.Set(in.announce.Get() &^ in.module.rewritten.Announced[k])
	}
}

// note keeps the frames of the innermost segment. It leaves out a frame that a tail call
// replaces: then Depth, which the guest has set for the call, is one less.
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
			e.frames = append(e.frames, at)
			number--
		}
	}
}

// announceAll announces all imports, because one has called back without an announcement.
func (in *instance) announceAll() {
	im := &in.imports
	im.backOff = min(4*im.backOff, mostBackOff)
	for k := range im.uses {
		im.uses[k].calls = 0
	}
	in.announce.Set(1<<64 - 1)
}
