package daemon

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/manager"
)

// hot raises the event of a method, edge or path that has become hot. The manager's goroutine calls it.
func (s *session) hot(e manager.Event) {
	s.follower.controller.offer(s, e)
	if !s.heat.admit(time.Now()) {
		return
	}
	hot := recording.HotOf(e)
	s.follower.raiseWith(EventHot, hot, hot.Text())
}

// raiseWith raises an event with data.
func (f *follower) raiseWith(k Kind, data any, text string) {
	e := f.event(k, text)
	encoded, err := json.Marshal(data)
	if err != nil {
		f.details.Error("leave out data of an event", "kind", k, "error", err)
	} else {
		e.Data = encoded
	}
	f.events.raise(e)
}

const (
	// heatEvery and mostHeat bound the events about what is hot of a session: a low threshold makes a whole program
	// hot at once, and the daemon keeps some hundred events of all targets.
	heatEvery = time.Minute
	mostHeat  = 50
)

// heatLimit bounds the events about what is hot. Any goroutine may call its methods.
type heatLimit struct {
	mu      sync.Mutex
	began   time.Time // of the minute
	raised  int       // events in it
	refused int       // that are not told yet
}

// admit reports whether there may be another event.
func (l *heatLimit) admit(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) >= heatEvery {
		l.began, l.raised = now, 0
	}
	if l.raised >= mostHeat {
		l.refused++
		return false
	}
	l.raised++
	return true
}

// leftOut returns how many events there were not, once a minute.
func (l *heatLimit) leftOut(now time.Time) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.began) < heatEvery {
		return 0
	}
	n := l.refused
	l.refused = 0
	return n
}
