package taker

import (
	"context"
	"sync"

	"github.com/ccmapd/ccmapd/internal/perfevent"
)

// Reader is the goroutine that reads an engine's records for all of its sources. The zero value has not begun.
//
//	stop     whoever starts and stops the reader, one at a time
//	broken   under mu: any goroutine
type Reader struct {
	stop   func() // nil: it does not run
	mu     sync.Mutex
	broken error
}

// Start begins to call turn again and again. turn waits for records by the waiter, and reads them. If it fails, the
// reader ends, and failed wakes the sources, which find the reason in Err.
func (r *Reader) Start(waiter *perfevent.Waiter, turn func() error, failed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	r.stop = func() {
		cancel()
		waiter.Ring()
		<-stopped
	}
	go func() {
		defer close(stopped)
		for ctx.Err() == nil {
			if err := turn(); err != nil {
				r.fail(err)
				failed()
				return
			}
		}
	}()
}

// Stop ends the reader, if it runs.
func (r *Reader) Stop() {
	if r.stop != nil {
		r.stop()
		r.stop = nil
	}
}

func (r *Reader) fail(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.broken = err
}

// Err returns the error that has ended the reader before its time, and all sources with it. Any goroutine may
// call it.
func (r *Reader) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.broken
}
