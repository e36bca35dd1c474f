package wasm

import (
	"sync"
	"sync/atomic"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

// instances are the module instances that run code of the profiler's modules. Any
// goroutine may use them.
//
//	of           by api.Module
//	added        how many have been put in since the last sweep
//	kept         how many the last sweep has left
type instances struct {
	of    sync.Map // api.Module → *instance
	added atomic.Int64
	kept  atomic.Int64
}

// get returns the instance of a guest, nil if it is not yet known.
func (is *instances) get(guest api.Module) *instance {
	in, ok := is.of.Load(guest)
	if !ok {
		return nil
	}
	return in.(*instance)
}

// put adds an instance, and reports false if its guest has one. Where as many have
// been added as were there, it looks for those that have been closed: the marker
// does so too, but only while it runs.
func (is *instances) put(in *instance) bool {
	if _, there := is.of.LoadOrStore(in.guest, in); there {
		return false
	}
	if added := is.added.Add(1); added > is.kept.Load()+mostClosed {
		is.sweep()
	}
	return true
}

// mostClosed is how many closed instances are kept at least before they are looked for.
const mostClosed = 64

func (is *instances) sweep() {
	is.added.Store(0)
	kept := int64(0)
	is.each(func(in *instance) {
		if in.guest.IsClosed() {
			in.leave()
		} else {
			kept++
		}
	})
	is.kept.Store(kept)
}

func (is *instances) remove(in *instance) { is.of.CompareAndDelete(in.guest, in) }

func (is *instances) each(f func(*instance)) {
	is.of.Range(func(_, in any) bool {
		f(in.(*instance))
		return true
	})
}

// instanceOf returns the instance of a guest at a safe point. One that nobody has
// entered yet, because its function was called through another's table, is known by
// the frame at the safe point. It is nil for a guest that is not sampled.
func (p *Profiler) instanceOf(guest api.Module, stack experimental.StackIterator) *instance {
	if in := p.instances.get(guest); in != nil {
		return in
	}
	global(guest, rewrite.MarkGlobal).Set(0)
	stack.Next() // the host function
	if !stack.Next() {
		return nil
	}
	def := stack.Function().Definition()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.modules {
		if !m.owns(def) {
			continue
		}
		if in := m.newInstance(guest); in != nil {
			in.thread.Unpark() // the stack has been looked at: it is sampled from the next mark on
		}
		return nil
	}
	return nil
}
