package daemon

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/supervise"
	"github.com/ccmapd/ccmapd/internal/uplink"
)

// sender sends what is filed to the hub of the fleet. It works like this:
//
//  1. The store notes the files that are to be sent, and keeps them until the hub has them: a [store.Outbox].
//  2. One goroutine wakes when something was filed. It waits for a part of hub.every at random, as a fleet files at the
//     same time, makes a contribution of each build, and sends one after another.
//  3. While the hub does not answer, it tries less and less often. What waits is on the disk.
//
// It sends processes' profiles alone, of targets of the configuration that may be sent, and of known builds: not the
// whole host, not endpoints, which may be other machines, and nothing that a user has attached to.
//
//	means, dial    never change
//	woken          has a token when something was filed, or the configuration changed
//	client … maybe the goroutine of run
//	all others     under mu
type sender struct {
	*means
	dial  func(uplink.Options) (sends, error)
	woken chan struct{}

	client  sends
	of      config.Hub // that client is for
	backoff supervise.Backoff
	maybe   map[string]bool // contributions that may have arrived, by name

	mu     sync.Mutex
	open   func(machine string, takes func(store.Key) bool) (*store.Outbox, error) // nil: there is no store
	outbox *store.Outbox                                                           // nil: nothing is sent
	is     Sending
}

// sends is what a sender needs of a hub: an [uplink.Hub].
type sends interface {
	Send(ctx context.Context, frame []byte) error
	Close()
}

// Sending says how what is filed gets to the hub.
type Sending struct {
	URL      string    `json:"url"`
	State    State     `json:"state"` // HubNew, HubWorks or HubFails
	Since    time.Time `json:"since"` // it is in this state
	Reason   string    `json:"reason,omitempty"`
	Cure     string    `json:"cure,omitempty"`
	Instance string    `json:"instance"` // that the hub knows this store by
	Waiting  int       `json:"waiting"`  // files that the hub does not have, as far as is known
	Sent     uint64    `json:"sent"`     // contributions
	Failures uint64    `json:"failures"` // attempts
	Lost     uint64    `json:"lost"`     // contributions that the hub does not take, and files that are gone

	FanIn *FanInOfFleet `json:"fan_in,omitempty"` // from where methods are called in the whole fleet; absent: the hub is not asked
}

// The states of sending.
const (
	HubNew   State = "new"     // nothing was sent yet
	HubWorks State = "sending" // the last attempt was good
	HubFails State = "failing" // it was not
)

const (
	firstSend, longestSend = time.Second, 5 * time.Minute // from a failure to the next attempt
	// sendSpread is the part of hub.every within which contributions are sent.
	sendSpread = 0.25
)

func newSender(m *means) *sender {
	return &sender{
		means: m, woken: make(chan struct{}, 1), maybe: make(map[string]bool),
		backoff: supervise.Backoff{First: firstSend, Longest: longestSend, Jitter: 0.5},
		dial:    func(o uplink.Options) (sends, error) { return uplink.New(o) },
	}
}

// isSent reports whether a hub gets the profiles of the target.
func (t *target) isSent() bool {
	return t.Send && t.config().Hub.URL != "" && t.attached == nil && !t.hasNoProcess()
}

// period returns how often the target is filed; 0: never.
func (t *target) period() time.Duration {
	every := t.config().Hub.Every
	if t.isSent() && (t.Rotate == 0 || every < t.Rotate) {
		return every
	}
	return t.Rotate
}

// begin has the store note what is to be sent, once there is a hub in the configuration.
func (s *sender) begin(takes func(store.Key) bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open == nil || s.outbox != nil || s.config().Hub.URL == "" {
		return nil
	}
	outbox, err := s.open(thisMachine(), takes)
	if err != nil {
		return err
	}
	s.outbox, s.is.State, s.is.Since = outbox, HubNew, time.Now()
	return nil
}

// thisMachine names the machine. Its own id is for nobody else (machine-id(5)).
func thisMachine() string {
	id, _ := os.ReadFile("/etc/machine-id") // without it all machines have one name
	sum := sha256.Sum256(append([]byte("ccmapd "), id...))
	return hex.EncodeToString(sum[:16])
}

// wake has the sender look for what waits.
func (s *sender) wake() {
	select {
	case s.woken <- struct{}{}:
	default:
	}
}

// run sends until ctx is done.
func (s *sender) run(ctx context.Context) {
	defer func() {
		if s.client != nil {
			s.client.Close()
		}
	}()
	for ctx.Err() == nil {
		pause := time.Duration(sendSpread * rand.Float64() * float64(s.config().Hub.Every))
		if until := time.Until(s.backoff.Until()); until > 0 { // nothing that is filed meanwhile shortens it
			pause = until
		} else {
			select {
			case <-s.woken:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(pause):
			s.round(ctx)
		case <-ctx.Done():
		}
	}
}

// round sends all that waits, and notes the outcome.
func (s *sender) round(ctx context.Context) {
	s.mu.Lock()
	outbox := s.outbox
	s.mu.Unlock()
	c := s.config().Hub
	if outbox == nil || c.URL == "" {
		s.backoff.Forget()
		return
	}
	err := s.connect(c, outbox)
	for sent := 1; err == nil && sent > 0; {
		sent, err = s.sendAll(ctx, outbox)
	}
	if ctx.Err() != nil {
		return
	}
	if err == nil {
		s.backoff.Forget()
	} else {
		s.backoff.Fail(time.Now().Add(uplink.After(err)), 0)
	}
	s.note(err)
}

// connect makes the way to the hub of the configuration.
func (s *sender) connect(c config.Hub, outbox *store.Outbox) (err error) {
	if s.client != nil && s.of == c {
		return nil
	}
	if s.client != nil {
		s.client.Close()
		s.client = nil
	} else {
		sealed, _ := outbox.Waiting()
		for _, one := range sealed {
			s.maybe[one.Name] = true // nobody knows what the process before has sent
		}
	}
	s.client, err = s.dial(uplink.Options{URL: c.URL, TokenFile: c.TokenFile, CAFile: c.CAFile})
	if err != nil {
		s.client = nil
	}
	s.of = c
	return err
}

// sendAll makes contributions of what is due, and sends those that wait. It returns how many the hub has now. An error
// of the disk is one of the hub, too: nothing is sent.
func (s *sender) sendAll(ctx context.Context, outbox *store.Outbox) (sent int, err error) {
	cpus, err := process.OnlineCPUs()
	if err != nil {
		return 0, err
	}
	if err := outbox.Seal(len(cpus)); err != nil {
		return 0, err
	}
	waiting, _ := outbox.Waiting()
	for _, one := range waiting {
		if err := s.send(ctx, outbox, one); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}

// send sends a contribution until the hub has it, or does not take it for good.
func (s *sender) send(ctx context.Context, outbox *store.Outbox, one store.Sealed) error {
	frame, err := outbox.Frame(one)
	if err != nil {
		return err
	}
	err = s.client.Send(ctx, frame)
	switch {
	case err == nil:
		s.count(func(is *Sending) { is.Sent++ })
	case errors.Is(err, uplink.ErrClone):
		s.tell("the hub has something else under the name of this machine's store, which gets a new one", one, err)
		return errors.Join(err, outbox.Renew(one, true))
	case errors.Is(err, uplink.ErrOver) && !s.maybe[one.Name]:
		s.count(func(is *Sending) { is.Failures++ })
		if err := outbox.Renew(one, false); err != nil {
			return err
		}
		s.wake()
		return nil
	case errors.Is(err, uplink.ErrOver), errors.Is(err, uplink.ErrPoison):
		s.count(func(is *Sending) { is.Lost++ })
		s.tell("the hub does not take a contribution", one, err)
	default:
		if uplink.MayHaveArrived(err) {
			s.maybe[one.Name] = true
		}
		return err
	}
	delete(s.maybe, one.Name)
	return outbox.Done(one)
}

// tell logs and raises what has become of a contribution.
func (s *sender) tell(what string, one store.Sealed, err error) {
	k := one.Key
	s.log.Error(what, "target", k.Target, "build", k.Build, "from", k.From, "error", err)
	s.events.raise(Event{Kind: EventHub, Target: k.Target, Text: fmt.Sprintf("%s: %v", what, err)})
}

func (s *sender) count(change func(*Sending)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.is)
}

// note notes the outcome of a round, and tells of each change.
func (s *sender) note(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	state, reason, cure := HubWorks, "", ""
	if err != nil {
		state, reason = HubFails, err.Error()
		s.is.Failures++
		cure = cureOfHub(err)
	}
	changed := s.is.State != state
	s.is.State, s.is.Reason, s.is.Cure = state, reason, cure
	if !changed {
		return
	}
	s.is.Since = time.Now()
	if err != nil {
		s.log.Error("the hub gets nothing: what is filed waits in the store", "url", s.of.URL, "error", err)
		s.events.raise(Event{Kind: EventHub, Text: "the hub gets nothing, and what is filed waits: " + reason})
		return
	}
	s.log.Info("the hub gets what is filed", "url", s.of.URL, "instance", s.outbox.Instance())
	s.events.raise(Event{Kind: EventHub, Text: "the hub gets what is filed"})
}

// cureOfHub says how to mend an error of sending.
func cureOfHub(err error) string {
	if cure, has := advice.Of(err); has {
		return cure
	}
	if errors.Is(err, uplink.ErrToken) {
		return "The line of the token in the hub's file must permit write, this instance or *, and the target."
	}
	return ""
}

// instance returns what the hub knows this store by; empty: nothing is sent.
func (s *sender) instance() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.outbox == nil {
		return ""
	}
	return s.outbox.Instance()
}

// status returns how what is filed gets to the hub; nil: there is none.
func (s *sender) status() *Sending {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.config().Hub
	if s.outbox == nil || c.URL == "" {
		return nil
	}
	is := s.is
	sealed, files := s.outbox.Waiting()
	is.URL, is.Instance, is.Waiting = c.URL, s.outbox.Instance(), files
	for _, one := range sealed {
		is.Waiting += one.Files()
	}
	is.Lost += s.outbox.Lost()
	return &is
}
