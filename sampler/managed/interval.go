package managed

import (
	"fmt"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/sampler"
)

// change is the last change of the interval.
//
//	wake  a token is there if the marker is to look
//	rest  under mu
type change struct {
	wake chan struct{} // capacity 1

	mu   sync.Mutex
	at   time.Time     // when it was asked for; zero: the marker has it
	last time.Duration // how long the last one took
}

func (c *change) ask() {
	c.mu.Lock()
	if c.at.IsZero() {
		c.at = time.Now()
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// done says that the marker goes by the interval that was asked for.
func (c *change) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() {
		c.last, c.at = time.Since(c.at), time.Time{}
	}
}

func (c *change) took() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.last
}

// SetInterval changes the interval for all threads: the marker goes by it from
// its last mark on. It is moved between MinInterval and MaxInterval. The error
// wraps [sampler.ErrUnsupported] where there is no marker.
func (p *Profiler) SetInterval(d time.Duration) error {
	if p.manual {
		return fmt.Errorf("set interval: the VM marks its threads itself: %w", sampler.ErrUnsupported)
	}
	p.interval.Store(int64(clampInterval(d)))
	p.change.ask()
	return nil
}
