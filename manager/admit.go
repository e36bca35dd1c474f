package manager

import (
	"errors"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
)

// admission keeps samples out of the map until it is known whose they are. A sample in the queue was made of
// memory that was read before: perhaps of another program, which the process has executed meanwhile. So samples
// leave the queue, then the question is asked, and only then they enter the map. The manager's goroutine owns it.
type admission struct {
	ask    func() error // nil: all samples are admitted
	over   bool         // a question was answered by an error
	held   []ccmap.Sample
	frames []ccmap.Frame // of held

	refused int   // samples
	weight  int64 // of them, ns of the target's CPU time
}

// hold keeps a sample until the question is answered.
func (a *admission) hold(s *ccmap.Sample) {
	begin := len(a.frames)
	a.frames = append(a.frames, s.Frames...)
	kept := *s
	kept.Frames = a.frames[begin:len(a.frames):len(a.frames)]
	a.held = append(a.held, kept)
}

// admitted asks the question. After an error nothing is admitted any more.
func (m *Manager) admitted() bool {
	a := &m.admission
	if a.ask == nil || a.over {
		return !a.over
	}
	err := a.ask()
	if a.over = err != nil; a.over && !errors.Is(err, sampler.ErrNoProcess) { // the source ends by itself with its process
		m.stop(err)
	}
	return !a.over
}

// drain folds the samples in the queue that are admitted.
func (m *Manager) drain() {
	a := &m.admission
	if a.ask == nil {
		m.info.Sink.Queue.Drain(m.fold)
		return
	}
	if m.info.Sink.Queue.Drain(a.hold) == 0 {
		return
	}
	fold := a.refuseSample
	if m.admitted() {
		fold = m.fold
	}
	for i := range a.held {
		fold(&a.held[i])
	}
	a.held, a.frames = a.held[:0], a.frames[:0]
}

// refuseSample counts a sample that does not enter the map.
func (a *admission) refuseSample(s *ccmap.Sample) {
	if !s.Hit {
		a.refuse(1, s.Weight)
	}
}

func (a *admission) refuse(samples int, weight int64) {
	a.refused += samples
	a.weight += weight
}
