package daemon

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// Event is news of a target. Seq counts from 1, and tells a reader what it has missed.
type Event struct {
	Seq    uint64          `json:"seq"`
	At     time.Time       `json:"at"`
	Kind   Kind            `json:"kind"` // state, interval, hot, hint, drift, loss, rotated, build, hub or reload
	Target string          `json:"target,omitempty"`
	PID    int             `json:"pid,omitempty"`
	Text   string          `json:"text"`           // for people; foreign names in it are not printable yet
	Data   json.RawMessage `json:"data,omitempty"` // of hot and hint events
	OfHost bool            `json:"-"`              // it is about the whole host

	Owner process.Owner `json:"-"` // of the process; zero: of no process, and so nobody's but root's
}

// Kind says what an event is about.
type Kind string

// The kinds of events.
const (
	EventState    Kind = "state"    // of a process: attaching, sampling, refused …
	EventInterval Kind = "interval" // the sampling interval has changed
	EventHot      Kind = "hot"      // a method, edge or path has become hot
	EventHint     Kind = "hint"     // a hot method of a JVM has hints for the compiler
	EventDrift    Kind = "drift"    // the program does something else than before
	EventLoss     Kind = "loss"     // samples were lost
	EventRotated  Kind = "rotated"  // a period was filed, or could not be
	EventBuild    Kind = "build"    // another build of the program was compared with the one before
	EventHub      Kind = "hub"      // the hub gets what is filed, or does not
	EventOutlier  Kind = "outlier"  // this machine differs from the others of a build, or does no more
	EventReload   Kind = "reload"   // a configuration took effect, or was refused
)

const (
	keptEvents    = 256 // for readers that come later
	waitingEvents = 64  // of one reader; it misses further ones
)

// hub hands events to readers. No reader holds up a writer: a slow one misses events.
type hub struct {
	mu      sync.Mutex
	seq     uint64
	kept    []Event // the latest
	readers map[chan Event]bool
}

func newHub() *hub { return &hub{readers: make(map[chan Event]bool)} }

func (h *hub) raise(e Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seq++
	e.Seq, e.At = h.seq, time.Now()
	if h.kept = append(h.kept, e); len(h.kept) > keptEvents {
		h.kept = h.kept[1:]
	}
	for r := range h.readers {
		select {
		case r <- e:
		default:
		}
	}
}

// subscribe returns the events after a number that are still kept, and then all that come.
func (h *hub) subscribe(since uint64) (events <-chan Event, cancel func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := make(chan Event, keptEvents+waitingEvents)
	for _, e := range h.kept {
		if e.Seq > since {
			c <- e
		}
	}
	h.readers[c] = true
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.readers[c] {
			delete(h.readers, c)
			close(c)
		}
	}
}

// Events returns events, from the first after since that is still kept on. A reader that is
// too slow misses some. Cancel ends them.
func (d *Daemon) Events(since uint64) (events <-chan Event, cancel func()) {
	return d.events.subscribe(since)
}
