package hosted

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
)

// Source delivers the gains of the sessions of a program.
//
//	server, name, profiles, o, pause   set by Open
//	last                               the goroutine that calls Run or Take
//	counts                             under mu: that goroutine writes, any goroutine reads
type Source struct {
	server   *served.Server
	name     string // of the one session that is followed; empty: all
	o        Options
	profiles chan *ccmap.Map
	pause    func(failures int) time.Duration // after so many failures in a row; tests have their own
	last     *Last

	mu     sync.Mutex
	counts counts
}

// counts are the figures of a source.
type counts struct {
	target   ccmap.Target
	interval time.Duration // the shortest of all sessions
	loss     ccmap.Loss    // of the program, of all looks
	samples  uint64        // of all looks
	looks    int
	failures int
	latest   error // of the last failure
}

// Options of a Source. URL, Sink and Read are required.
type Options struct {
	// URL is the address below which the routes are, for example "http://127.0.0.1:6060/debug/ccmapd" for
	// ".../debug/ccmapd/v1/targets". "#NAME" after it follows one session alone.
	URL  string
	Sink sampler.Sink

	// Read reads a map in JSON, perhaps compressed by zstd or gzip, in so much memory.
	Read func(r io.Reader, memory int64) (*ccmap.Map, error)

	// Turn waits for leave to read a map that has arrived, and to compare it; done gives the turn back. Nil: it
	// does not wait.
	Turn func(context.Context) (done func(), err error)

	// Last is of an earlier Source of the same program, and belongs to this one from now on; nil: nothing
	// is known of the program.
	Last *Last

	Every     time.Duration // between two looks; 0 means 5 s
	MaxBytes  int64         // of all maps of a look, as they come; 0 means 64 MiB
	MaxMemory int64         // of all maps of a look; 0 means 256 MiB
	MaxNames  int64         // bytes of names that all looks may bring; 0 means 64 MiB

	NoLabels bool // leaves out labels

	Credentials served.Credentials
	CAFile      string // certificates, in PEM, of the authorities to trust; empty: the system's

	Build       string // of the program: another one ends Run; empty: the first look says
	MaxFailures int    // failed looks in a row that end Run; 0: it goes on asking
	Needed      bool   // Run fails if all looks failed

	// Dial connects to the server, within 10 s; nil: by the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger *slog.Logger // gets the failures of looks; nil discards them
}

const (
	defaultEvery     = 5 * time.Second
	defaultMaxBytes  = 64 << 20
	defaultMaxMemory = 256 << 20
	defaultMaxNames  = 64 << 20

	// A program spends time on each answer. A look that takes long is followed by a pause of so many times
	// as much, up to longestEvery.
	pauseShare   = 20
	longestEvery = time.Minute
	// finalTime is how long the look at the end may take.
	finalTime = 2 * time.Second
)

// Engine is the name of the engine in profiles.
const Engine = "hosted"

// Why says, for people, how such a program is sampled.
const Why = "the VMs that it hosts sample themselves, over HTTP"

// lacks names the facts that the profiles lack.
const lacks = "what the program counts after the last look at it is missing if it ends, and calls of all its phases count together"

var _ sampler.Source = (*Source)(nil)

// ErrNotHosted says that a server has no routes of api.Handler.
var ErrNotHosted = fmt.Errorf("it hosts no VMs whose profiles it serves (api.Handler): %w", sampler.ErrUnsupported)

// Open asks the program for its sessions. It ends when ctx is done, which has no effect on Run. A Source that
// is not run must be closed. Errors wrap the errors of package sampler.
func Open(ctx context.Context, o Options) (*Source, error) {
	if o.Sink.Names == nil || o.Read == nil {
		return nil, errors.New("source needs a name table and a reader of maps")
	}
	o.complete()
	base, err := served.Parse(o.URL, "/debug/ccmapd", o.Credentials)
	if err != nil {
		return nil, fmt.Errorf("attach to URL: %w", err) // which may hold a password
	}
	server, err := served.New(base, served.Options{Credentials: o.Credentials, CAFile: o.CAFile, Dial: o.Dial})
	if err != nil {
		return nil, fmt.Errorf("attach to URL: %w", err)
	}
	s := &Source{server: server, name: base.Fragment, o: o, profiles: make(chan *ccmap.Map), pause: served.BackOff, last: o.Last}
	if err := s.describe(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("attach to %s: %w", server, err)
	}
	return s, nil
}

// complete sets the fields that are zero.
func (o *Options) complete() {
	o.Every = cmp.Or(max(o.Every, 0), defaultEvery)
	o.MaxBytes = cmp.Or(max(o.MaxBytes, 0), defaultMaxBytes)
	o.MaxMemory = cmp.Or(max(o.MaxMemory, 0), defaultMaxMemory)
	o.MaxNames = cmp.Or(max(o.MaxNames, 0), defaultMaxNames)
	if o.Turn == nil {
		o.Turn = func(context.Context) (func(), error) { return func() {}, nil }
	}
	if o.Last == nil {
		o.Last = new(Last)
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}

// Close frees a Source whose Run is not called.
func (s *Source) Close() error {
	s.server.Close()
	return nil
}

// Take returns all that the sessions have counted since their start, for a caller that wants to know whether
// they can be followed. Run must not have been called.
func (s *Source) Take(ctx context.Context) (*ccmap.Map, error) {
	s.last = &Last{looked: true}
	l, err := s.look(ctx)
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", s.server, err)
	}
	s.keep(l)
	return l.sum, nil
}

// Profiles returns the channel of profiles. Run sends to it until it returns, and waits for
// the receiver.
func (s *Source) Profiles() <-chan *ccmap.Map { return s.profiles }

// Run delivers profiles until ctx is done, the server runs another program, or requests fail for good. The
// consumer must take them until Run returns: the last one comes after ctx is done.
func (s *Source) Run(ctx context.Context) (sampler.Ending, error) {
	defer s.Close()
	failures, looked := 0, false
	var err error
	for ctx.Err() == nil {
		began := time.Now()
		err = s.deliver(ctx)
		switch {
		case ctx.Err() != nil:
		case errors.Is(err, served.ErrReplaced):
			return sampler.Ending{Reason: err.Error(), Exited: true}, nil
		case served.IsRefusal(err), err != nil && failures+1 == s.o.MaxFailures:
			return sampler.Ending{}, fmt.Errorf("profile %s: %w", s.server, err)
		case err != nil:
			failures++
			s.fail(err)
			served.Wait(ctx, s.pause(failures))
		default:
			failures, looked = 0, true
			served.Wait(ctx, s.rest(time.Since(began)))
		}
	}
	if failures == 0 {
		err = s.finish(ctx)
	}
	if err != nil && !looked && s.o.Needed {
		return sampler.Ending{}, fmt.Errorf("profile %s: no look succeeded; the last: %v", s.server, err) // others may have had other reasons
	}
	return sampler.Ending{Reason: "stopped"}, nil
}

// rest returns the pause after a look that took so long.
func (s *Source) rest(took time.Duration) time.Duration {
	return max(s.o.Every, min(pauseShare*took, longestEvery))
}

// finish delivers the gain up to the end.
func (s *Source) finish(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finalTime)
	defer cancel()
	err := s.deliver(ctx)
	if err != nil {
		s.o.Logger.Info("no last look", "url", s.server.String(), "error", err)
	}
	return err
}

// deliver looks at all sessions, and sends their gain. Only then the look is the last one: a gain
// that was not delivered comes with the next.
func (s *Source) deliver(ctx context.Context) error {
	l, err := s.look(ctx)
	if err != nil {
		return err
	}
	if !l.isEmpty() {
		select {
		case s.profiles <- l.sum:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	s.keep(l)
	return nil
}

// keep makes a look the last one.
func (s *Source) keep(l *look) {
	s.last.sessions, s.last.looked = l.now, true
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counts
	c.samples += uint64(l.samples)
	c.loss = c.loss.Add(l.loss)
	if l.interval > 0 {
		c.interval = l.interval
	}
	l.target.Executable = cmp.Or(l.target.Executable, c.target.Executable)
	c.target = l.target
}

// fail counts a failed look.
func (s *Source) fail(err error) {
	s.mu.Lock()
	s.counts.failures++
	s.counts.latest = err
	s.mu.Unlock()
	s.o.Logger.Info("no profile", "url", s.server.String(), "error", err)
}

// Info describes the source. Any goroutine may call it.
func (s *Source) Info() sampler.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return sampler.Info{Target: s.counts.target, Engine: Engine, Sink: s.o.Sink, Lacks: lacks}
}

// Stats returns the figures so far. Any goroutine may call it.
func (s *Source) Stats() sampler.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counts
	st := sampler.Stats{Interval: c.interval, Loss: c.loss, NoCalls: "the program catches them itself"}
	st.Counts[sampler.Samples] = c.samples
	if c.failures > 0 {
		st.Warning = fmt.Sprintf("%d of %d looks at the program failed; the last: %v", c.failures, c.looks, c.latest)
	}
	return st
}
