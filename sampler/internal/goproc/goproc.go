package goproc

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
)

// Process is the Go runtime in a process. It belongs to the engine's goroutine.
type Process struct {
	unwinder
	pid     int
	log     *slog.Logger
	instant instant
	who     *identifier    // nil where the runtime's structures are not known
	layouts []gosym.Layout // to be tried, if the present one is refuted
	proof   proof
	labels  *labels // nil: they are not read
	stack   stack   // reused
	refused bool    // the symbols cannot be loaded, which was logged

	moments   int  // that were unwound
	callbacks bool // a stack had Go that C has called
}

var (
	_ process.Runtime = (*Process)(nil)
	_ indirect.Code   = (*Process)(nil)

	_ process.Nameless = (*Process)(nil)
	_ process.Bodied   = (*Process)(nil)
)

// Open loads the symbols of a process. A program that was stopped right after exec has
// none before it runs: see [process.Loader.Load]. The watch gives up reads of the
// target's memory and files that never return.
//
// Errors wrap the errors of package sampler.
func Open(ctx context.Context, o sampler.ProcessOptions, w *hang.Watch) (*Process, error) {
	pid, log := o.PID, o.Logger
	c, err := openCode(ctx, pid, gosym.Options{Logger: log, Watch: w, SymbolCache: o.SymbolCache})
	if err != nil {
		return nil, err
	}
	p := &Process{unwinder: unwinder{code: c}, pid: pid, log: log}
	p.instant.Memory = process.MemoryOf(pid, w)
	p.memory = &p.instant
	p.far.memory = p.instant.Memory
	p.far.renew()
	p.labels = newLabels(p.instant.Memory)
	p.learnLayout()
	return p, nil
}

// IgnoreLabels makes stacks have no labels, and their texts stay unread.
func (p *Process) IgnoreLabels() { p.labels = nil }

// Close releases the symbols.
func (p *Process) Close() { p.code.close() }

// Bound is part of [process.Loader].
func (p *Process) Bound(ctx context.Context) { p.code.bound(ctx) }

// Lacks is part of [process.Lacking].
func (p *Process) Lacks() []string { return p.code.lacks() }

// SameProgram is part of [process.Loader].
func (p *Process) SameProgram() error { return p.code.same() }

// Bytes is part of [process.Loader].
func (p *Process) Bytes() (own, common int64) { return p.code.bytes() }

// Build is part of [process.Loader].
func (p *Process) Build() (id, version string) {
	if p.code.table == nil {
		return "", ""
	}
	return p.code.table.BuildID(), p.code.table.GoVersion()
}

// Commit is part of [process.Dated].
func (p *Process) Commit() time.Time {
	if p.code.table == nil {
		return time.Time{}
	}
	return p.code.table.Commit()
}

// Load is part of [process.Loader].
func (p *Process) Load(ctx context.Context) bool {
	if p.code.table != nil || !p.code.due(time.Now()) {
		return false
	}
	if err := p.code.load(ctx); err != nil {
		if !p.refused && ctx.Err() == nil {
			p.log.Warn("no symbols: all functions are [unknown]", "reason", err)
		}
		p.refused = true
		return false
	}
	p.code.bound(ctx)
	p.learnLayout()
	return true
}

// Refresh is part of [process.Loader].
func (p *Process) Refresh(ctx context.Context, now time.Time) (bool, error) {
	if !p.code.due(now) {
		return false, nil
	}
	return true, p.code.refresh(ctx)
}

// Renew is part of [process.Loader].
func (p *Process) Renew(now time.Time) {
	p.code.renew(now)
	p.far.renew()
}

// HashBodies is part of [process.Bodied].
func (p *Process) HashBodies(bytes int) { p.code.hashBodies(bytes) }

// Unwind is part of [process.Runtime].
func (p *Process) Unwind(m *process.Moment, st *process.Stack) {
	p.code.beginSample()
	p.instant.objects = m.Objects
	p.stack.PCs = st.PCs
	p.unwind(m, &p.stack)
	p.moments++
	p.callbacks = p.callbacks || p.stack.back
	p.proveLayout(m)
	p.identify(m)
	*st = p.stack.Stack
}

// Chain is part of [process.Chainer]. The register holds the goroutine in Go code.
func (p *Process) Chain(pcs []uint64, tid uint32, g uint64, st *process.Stack) {
	s := &p.stack
	*s = stack{Stack: process.Stack{PCs: append(st.PCs[:0], pcs...)}}
	p.cutAtRoot(s)
	p.finish(s)
	s.Thread = process.OSThread | uint64(tid)
	if p.who != nil && plausible(g) {
		s.Thread = g
	}
	*st = s.Stack
}

// Descriptors is part of [process.Described]. A layout out of a target's debugging information
// may lie: one with fields that lie too far apart is not told. One that is not proved is told: only what it
// leads to at the instant can prove it soon.
func (p *Process) Descriptors() (process.Descriptors, bool) {
	l, told := p.layout, p.knowsLayout
	if p.proof.who != nil {
		l, told = p.proof.who.layout, true
	}
	g := bytesOf(l.GStackLo, l.GStackHi, l.GM, l.GSchedSP, l.GSchedPC, l.GSchedBP,
		l.GSyscallSP, l.GSyscallPC, l.GSyscallBP, l.GStatus, l.GID, l.GLabels)
	m := bytesOf(l.MG0, l.MCurG)
	if !told || max(g, m) > process.MostDescriptor {
		return process.Descriptors{}, false
	}
	return process.Descriptors{
		Thread: uint16(l.GM), SavedSP: uint16(l.GSchedSP), GoroutineBytes: uint16(g),
		Own: uint16(l.MG0), Current: uint16(l.MCurG), ThreadBytes: uint16(m),
		Callbacks: p.callbacks || p.moments < unknownCallbacks,
	}, true
}

// unknownCallbacks is after how many moments a program that has not shown callbacks seems to
// have none.
const unknownCallbacks = 256

// bytesOf returns how many bytes of a descriptor hold the words at these offsets.
func bytesOf(offsets ...int) int { return slices.Max(offsets) + 8 }

// Frames is part of [process.Runtime]. It leaves runtime.goexit out, as runtime/pprof
// does: runtime.goexit is only where every goroutine begins.
func (p *Process) Frames(st *process.Stack, names *ccmap.Names, dst []ccmap.Frame) []ccmap.Frame {
	pcs := st.PCs
	if len(pcs) > 1 && p.onGoroutine(st) {
		pcs = pcs[:len(pcs)-1]
	}
	e := st.Elided
	if e.At == 0 {
		return p.code.frames(pcs, names, dst)
	}
	dst = p.code.frames(pcs[:e.At], names, dst)
	at := len(dst)
	if dst = p.code.frames(pcs[e.At:], names, dst); at < len(dst) {
		dst[at] = ccmap.Frame{Method: ccmap.ElidedID, Offset: ccmap.NoOffset}
	}
	return dst
}

// Remedy is part of [process.Nameless].
func (p *Process) Remedy(file string) string {
	if p.code.table == nil {
		return ""
	}
	return p.code.table.Remedy(file)
}

// Method is part of [process.Chainer].
func (p *Process) Method(pc uint64, names *ccmap.Names) (ccmap.MethodID, bool) {
	return p.code.target(pc, names)
}

// Entry is part of [process.Runtime].
func (p *Process) Entry(pc uint64) uint64 { return p.code.entry(pc) }

// CallBefore is part of [indirect.Code].
func (p *Process) CallBefore(ret uint64, f *indirect.Finder) indirect.Call {
	return p.code.callBefore(ret, f)
}

// onGoroutine reports whether a stack begins where a goroutine does.
func (p *Process) onGoroutine(st *process.Stack) bool {
	return st.Rooted && len(st.PCs) > 0 && p.code.at(st.PCs[len(st.PCs)-1]).id == gosym.FuncGoexit
}

// identify tells which goroutine the stack belongs to. Where goroutines are not known,
// the thread stands for it.
func (p *Process) identify(m *process.Moment) {
	who := identity{thread: process.OSThread | uint64(m.TID)}
	if p.who != nil {
		who = p.who.identify(m, &p.stack, p.onGoroutine(&p.stack.Stack))
	}
	p.stack.Thread, p.stack.Goroutine = who.thread, who.goroutine
	if p.labels != nil && who.goroutine != 0 {
		p.stack.Labels = p.labels.at(who.labels, p.who.layout.LabelsAreMap)
	}
}
