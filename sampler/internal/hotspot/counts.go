package hotspot

import (
	"context"
	"fmt"
	"sync"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/classes"
	"github.com/ccmapd/ccmapd/sampler/internal/hotspot/methoddata"
)

// hot has the methods on the stacks of late. The engine's goroutine adds to it, and the
// goroutine of Count takes them.
type hot struct {
	mu      sync.Mutex
	methods map[uint64]bool // by the addresses of their Methods
}

// maxHot bounds the methods whose profiles are read every few seconds.
const maxHot = 1 << 12

// note adds a method of a stack.
func (h *hot) note(method uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.methods == nil {
		h.methods = make(map[uint64]bool)
	}
	if len(h.methods) < maxHot {
		h.methods[method] = true
	}
}

// drainMethods returns the methods, and begins anew.
func (h *hot) drainMethods() []uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	list := make([]uint64, 0, len(h.methods))
	for m := range h.methods {
		list = append(list, m)
	}
	clear(h.methods)
	return list
}

var _ process.Counter = (*Process)(nil)

// Count is part of [process.Counter]: it reads the profiles that the JVM keeps for its
// compiler. It has names of its own, and shares the engine's tables of the JVM alone, which
// do not change.
func (p *Process) Count(ctx context.Context, w *hang.Watch, names *ccmap.Names, publish func([]ccmap.Point)) error {
	vm := *p.vm
	vm.Memory = process.MemoryOf(p.pid, w)
	table, err := classes.New(&vm)
	if err != nil {
		return fmt.Errorf("read the JVM's classes: %w", err)
	}
	reader, err := methoddata.New(&vm, table)
	if err != nil {
		return err
	}
	return reader.Follow(ctx, names, p.hot.drainMethods, publish)
}
