package memory

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// churn is a program that answers each request in a goroutine of its own, in a place that another one has left. Clients
// ask again after a pause. Time goes on in steps.
type churn struct {
	r      *rand.Rand
	now    time.Duration
	places []uint64 // ids; 0: dead
	free   []int
	idle   int // clients in their pause
	id     uint64
	served time.Duration // of all requests so far
	late   time.Duration // the census is so old when goroutines are looked at
}

const (
	churnStep    = 20 * time.Microsecond
	churnRequest = 900 * time.Microsecond
)

func (c *churn) advance(until time.Duration) {
	ends := float64(churnStep) / float64(churnRequest)
	for ; c.now < until; c.now += churnStep {
		for place, id := range c.places {
			switch {
			case id == 0:
			case c.r.Float64() < ends:
				c.places[place] = 0
				c.free, c.idle = append(c.free, place), c.idle+1
			default:
				c.served += churnStep
			}
		}
		for range c.idle {
			if c.r.Float64() < ends {
				c.begin()
			}
		}
	}
}

func (c *churn) begin() {
	c.id++
	c.idle--
	if n := len(c.free); n > 0 {
		c.places[c.free[n-1]], c.free = c.id, c.free[:n-1]
		return
	}
	c.places = append(c.places, c.id)
}

func (c *churn) task(place int) process.Task {
	if c.places[place] == 0 {
		return process.Task{}
	}
	return process.Task{ID: c.places[place], State: process.Waiting, Proof: true}
}

func (c *churn) Refresh() error                { return nil }
func (c *churn) Len() (int, uint64)            { return len(c.places), uint64(len(c.places)) }
func (c *churn) Reuses() bool                  { return true }
func (c *churn) Own(*process.Task) bool        { return false }
func (c *churn) Reason(t *process.Task) string { return "select" }
func (c *churn) Outset(*process.Task, map[uint64]bool, *process.Stack) bool {
	return false
}

func (c *churn) Census(visit func(place int, t *process.Task) bool) {
	for place := range c.places {
		if t := c.task(place); t.State != process.Dead {
			visit(place, &t)
		}
	}
	c.advance(c.now + c.late)
}

func (c *churn) Look(places []int32, visit func(place int32, k *process.TaskLook)) {
	for _, place := range places {
		t := c.task(int(place))
		visit(place, &process.TaskLook{Task: t, Read: t.State != process.Dead, Stack: &process.Stack{Rooted: true}})
	}
}

// serving names the one stack of all.
type serving struct{ process.Runtime }

func (serving) Frames(_ *process.Stack, names *ccmap.Names, frames []ccmap.Frame) []ccmap.Frame {
	return append(frames, ccmap.Frame{Method: names.Intern(ccmap.Method{Name: "main.serve"}), Offset: ccmap.NoOffset})
}

// TestShortGoroutines: goroutines that live for a millisecond have all of their time, though the census is a third of that
// old when they are looked at.
func TestShortGoroutines(t *testing.T) {
	t.Parallel()
	c := &churn{r: rand.New(rand.NewPCG(1, 2)), idle: 8, late: 300 * time.Microsecond}
	names := ccmap.NewNames()
	l := newLedger(sampler.ProcessOptions{Unit: Wait, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: names}}, c, serving{})
	told, moved, before := int64(0), int64(0), time.Duration(0)
	for tick := range 3000 {
		c.advance(c.now + time.Duration(c.r.IntN(10_000))*time.Microsecond)
		l.tick(t.Context(), int64(c.now))
		for _, s := range l.out {
			if names.At(s.Frames[1].Method).Name == "main.serve" {
				told += s.Weight
			} else {
				moved += s.Weight
			}
		}
		l.drop()
		if tick == 100 { // it has come to its usual state
			told, moved, before = 0, 0, c.served
		}
	}
	truth := c.served - before
	if off := float64(told)/float64(truth) - 1; math.Abs(off) > 0.03 || moved > 0 {
		t.Errorf("%v of %v, %.1f %%; %v moved", time.Duration(told), truth, 100*off, time.Duration(moved))
	}
}
