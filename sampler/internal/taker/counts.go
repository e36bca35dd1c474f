package taker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/indirect"
)

// counts are written by the engine's goroutine and read by Stats.
type counts struct {
	samples, repaired, rooted, truncated atomic.Uint64
	kernel, foreign, recalled            atomic.Uint64
	armed, places, traps                 atomic.Uint64 // watches; CPUs interrupted for them; writes trapped
	watches                              atomic.Int64
	unaccounted                          atomic.Pointer[ccmap.Loss] // of time; nil: not known
	elided                               atomic.Pointer[ccmap.Elided]
	files                                atomic.Pointer[[]string] // comments on files of the target

	caught indirect.Counts
}

// count adds a sample.
func (c *counts) count(m *process.Moment, st *process.Stack) {
	c.samples.Add(1)
	if st.Rooted {
		c.rooted.Add(1)
	} else {
		c.truncated.Add(1)
	}
	if st.Repaired {
		c.repaired.Add(1)
	}
	if st.Foreign {
		c.foreign.Add(1)
	}
	if st.Recalled {
		c.recalled.Add(1)
	}
	if m.Kernel {
		c.kernel.Add(1)
	}
	if st.Elided.At > 0 {
		c.elide(st.Elided)
	}
}

// elide takes in the frames that a stack lacks.
func (c *counts) elide(e process.Elided) {
	one := ccmap.Elided{Samples: 1, Least: e.Frames, Most: e.Frames}
	if e.Least {
		one.Least, one.Uncounted = 0, 1
	}
	sum := c.elidedSoFar().Add(one)
	c.elided.Store(&sum)
}

func (c *counts) elidedSoFar() ccmap.Elided {
	if e := c.elided.Load(); e != nil {
		return *e
	}
	return ccmap.Elided{}
}

// Stats returns the figures so far, without those that only the engine has. warning is
// the engine's own. Any goroutine may call it.
func (t *Taker) Stats(warning string) sampler.Stats {
	c := &t.counts
	loss := t.loss()
	return sampler.Stats{
		Counts: sampler.Counts{
			sampler.Samples:     c.samples.Load(),
			sampler.Repaired:    c.repaired.Load(),
			sampler.Rooted:      c.rooted.Load(),
			sampler.Truncated:   c.truncated.Load(),
			sampler.InKernel:    c.kernel.Load(),
			sampler.Foreign:     c.foreign.Load(),
			sampler.Recalled:    c.recalled.Load(),
			sampler.Armed:       c.armed.Load(),
			sampler.Watchpoints: uint64(c.watches.Load()),
			sampler.Caught:      c.caught.Caught.Load(),
			sampler.Strays:      c.caught.Strays.Load(),
			sampler.Bursts:      c.caught.Bursts.Load(),
			sampler.HotCalls:    uint64(c.caught.Sites.Load()),
		},
		Loss:     loss,
		Warning:  joinWarnings(warning, c.recalledWarning(), t.unnamed.text()),
		NoCalls:  cmp.Or(t.counting.reason(), c.caught.Reason()),
		Overhead: t.overhead(loss.Clock),
		Elided:   c.elidedSoFar(),
		Files:    c.filesSoFar(),
	}
}

// countFiles publishes what the runtime says of files.
func (t *Taker) countFiles() {
	lacking, ok := t.Runtime.(process.Lacking)
	if !ok {
		return
	}
	if files := lacking.Lacks(); !slices.Equal(files, t.counts.filesSoFar()) {
		t.counts.files.Store(&files)
	}
}

func (c *counts) filesSoFar() []string {
	if files := c.files.Load(); files != nil {
		return *files
	}
	return nil
}

// countWatches publishes the figures of the judge.
func (t *Taker) countWatches() {
	places, traps := t.Judge.Interrupted()
	t.counts.armed.Store(t.Judge.Armed())
	t.counts.places.Store(places)
	t.counts.traps.Store(traps)
}

func (t *Taker) loss() ccmap.Loss {
	l := ccmap.Loss{
		Source:    t.Lost.Load(),
		Throttled: t.Throttled.Load(),
		Corrupt:   t.Corrupt.Load() + t.counts.caught.Corrupt.Load(),
	}
	if time := t.counts.unaccounted.Load(); time != nil {
		l = l.Add(*time)
	}
	return l
}

// mostRecalled is how much of all samples may have an earlier call's callers without
// a warning.
const mostRecalled = 0.05

// recalledWarning is empty where few samples are concerned.
func (c *counts) recalledWarning() string {
	recalled, all := float64(c.recalled.Load()), float64(c.samples.Load())
	if recalled <= mostRecalled*all {
		return ""
	}
	return fmt.Sprintf("%.1f%% of the samples are in C and have the callers of their goroutine's last such call: "+
		"where several paths lead to one C function, their shares are estimates", 100*recalled/all)
}

func joinWarnings(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(w string) bool { return w == "" }), "; ")
}
