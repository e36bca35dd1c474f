package pprofhttp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/served"
	"github.com/ccmapd/ccmapd/sampler"
)

// Source takes profiles of one server.
//
//	endpoint, owner, profiles, o   set by Open and Finder.Open
//	ledger                         the goroutine of Run
//	finished                       closed by Finish, once
//	counts                         under mu: Run writes, any goroutine reads
type Source struct {
	endpoint endpoint
	owner    *owner // nil: the program may be anywhere
	o        Options
	profiles chan *ccmap.Map
	ledger   *process.Ledger // nil: the program has no clock here
	finished chan struct{}
	finish   sync.Once
	closing  sync.Once
	pause    func(failures int) time.Duration // after so many failures in a row; tests have their own
	second   time.Duration                    // of a profile; tests have shorter ones

	mu     sync.Mutex
	counts counts
}

// counts are the figures of a source.
type counts struct {
	target   ccmap.Target
	interval time.Duration // of the last profile
	samples  uint64        // of all profiles
	loss     ccmap.Loss
	requests int
	failures int
	last     error // of the last failure
}

// Options of a Source. Sink and Read are required. [Open] needs the URL, too.
type Options struct {
	URL  string // of the endpoint, for example "http://127.0.0.1:6060/debug/pprof"
	Sink sampler.Sink

	// Read reads one profile in the format of pprof, and bounds the memory that it takes.
	Read func(io.Reader) (*ccmap.Map, error)

	Seconds  int           // the length of a profile; 0 means 5
	Rest     time.Duration // between two requests, for other clients; 0: none, but a pause after a failure
	MaxNames int64         // bytes of names that all profiles may bring; 0 means 64 MiB

	NoLabels bool // leaves out the labels of goroutines

	Credentials served.Credentials
	CAFile      string // certificates, in PEM, of the authorities to trust; empty: the system's

	Build       string // of the program: profiles of another one are not taken; empty: the first profile says
	MaxFailures int    // failed requests in a row that end Run; 0: it goes on asking
	Needed      bool   // Run fails if it took no profile, though its time was over or requests failed

	// Dial connects to the server, within 10 s; nil: by the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)

	Logger *slog.Logger // gets the failures of requests; nil discards them
}

const (
	defaultSeconds  = 5
	defaultMaxNames = 64 << 20

	// margin is how much before the end of a session the last profile must end.
	margin = 300 * time.Millisecond
)

// Engine is the name of the engine in profiles.
const Engine = "pprofhttp"

// lacks names the facts that a profile lacks.
const lacks = "activations, repetitions and receivers are not known, and stacks that were cut are not marked"

// lacksRest is for a source that rests between two profiles.
const lacksRest = "; between two profiles others have %v for theirs, and the time of the program is unaccounted"

var _ sampler.Source = (*Source)(nil)

// Open checks that the server answers. It ends when ctx is done, which has no
// effect on Run. A Source that is not run must be closed. Errors wrap the errors of package
// sampler.
func Open(ctx context.Context, o Options) (*Source, error) {
	if o.Sink.Names == nil || o.Read == nil {
		return nil, errors.New("source needs a name table and a reader of profiles")
	}
	if o.Seconds <= 0 {
		o.Seconds = defaultSeconds
	}
	if o.MaxNames <= 0 {
		o.MaxNames = defaultMaxNames
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	e, err := newEndpoint(o)
	if err != nil {
		return nil, fmt.Errorf("attach to URL: %w", err) // which may hold a password
	}
	s := &Source{endpoint: e, o: o, profiles: make(chan *ccmap.Map), finished: make(chan struct{}), pause: served.BackOff, second: time.Second}
	if s.counts.target, err = e.describe(ctx); err != nil {
		s.Close()
		return nil, fmt.Errorf("attach to %s: %w", e, err)
	}
	s.counts.target.BuildID = o.Build
	return s, nil
}

// Close frees a Source whose Run is not called. After Run it does nothing.
func (s *Source) Close() error {
	s.closing.Do(func() {
		s.endpoint.Close()
		if s.owner != nil {
			s.owner.Close() // once: its descriptor may be another file's later
		}
	})
	return nil
}

// Take takes one profile, for a caller that wants to know whether that works. A server that is
// busy is not asked again. Run must not have been called.
func (s *Source) Take(ctx context.Context) (*ccmap.Map, error) {
	m, err := s.fetchProfile(ctx, s.endpoint.seconds(s.o.Seconds))
	if err != nil {
		return nil, fmt.Errorf("profile %s: %w", s.endpoint, err)
	}
	return m, nil
}

// Prove takes a profile of one second, the least of a server, and describes it. It tries until ctx is
// done, because a profile of another client may be under way. Run must not have been called.
func (s *Source) Prove(ctx context.Context) (found string, err error) {
	for failures := 1; ; failures++ {
		m, failed := s.fetchProfile(ctx, 1)
		if failed == nil {
			return fmt.Sprintf("a profile of one second at %s, with samples: %d", s.endpoint, m.Snapshot().Total().Samples), nil
		}
		if err == nil || ctx.Err() == nil { // the end of ctx says less than an answer
			err = fmt.Errorf("profile %s: %w", s.endpoint, failed)
		}
		if served.IsRefusal(failed) || ctx.Err() != nil {
			return "", err
		}
		s.wait(ctx, s.pause(failures))
	}
}

// Profiles returns the channel of profiles. Run sends to it until it returns, and waits for
// the receiver.
func (s *Source) Profiles() <-chan *ccmap.Map { return s.profiles }

// Finish ends Run after the profile that is being taken, which is not lost. Any goroutine may call it.
func (s *Source) Finish() { s.finish.Do(func() { close(s.finished) }) }

func (s *Source) isFinished() bool {
	select {
	case <-s.finished:
		return true
	default:
		return false
	}
}

// Run takes profiles until ctx is done, Finish is called, the server runs another program, or requests
// fail for good. A profile that ctx cuts off is lost, so a session with a deadline ends its last
// profile before that.
func (s *Source) Run(ctx context.Context) (sampler.Ending, error) {
	defer s.Close()
	if s.owner != nil {
		s.ledger = process.OpenLedger(s.owner.PID, false)
		defer s.balance(0)
	}
	for failures := 0; ctx.Err() == nil && !s.isFinished(); {
		seconds, ok := s.length(ctx)
		if !ok {
			select {
			case <-s.finished:
			case <-ctx.Done():
			}
			break
		}
		due := time.Now().Add(time.Duration(seconds)*s.second + s.o.Rest)
		m, err := s.fetchProfile(ctx, seconds)
		switch {
		case ctx.Err() != nil:
			if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
				s.fail(err) // the answer was due before
			}
		case errors.Is(err, served.ErrReplaced):
			return sampler.Ending{Reason: err.Error(), Exited: true}, nil
		case err != nil && s.hasEnded(ctx):
			return sampler.Ending{Reason: errEnded.Error(), Exited: true}, nil
		case served.IsRefusal(err), err != nil && failures+1 == s.o.MaxFailures:
			return sampler.Ending{}, fmt.Errorf("profile %s: %w", s.endpoint, err)
		case err != nil:
			failures++
			s.fail(err)
			s.wait(ctx, max(s.pause(failures), s.o.Rest))
		default:
			failures = 0
			s.balance(time.Duration(m.Snapshot().Total().Time))
			select {
			case s.profiles <- m:
			case <-ctx.Done():
			}
			s.wait(ctx, time.Until(due)) // a server that answers at once is not asked without end
		}
	}
	if err := s.fruitless(ctx); err != nil {
		return sampler.Ending{}, err
	}
	return sampler.Ending{Reason: "stopped"}, nil
}

// fruitless says why Run, whose context is done, took no profile, if one is needed. The error does not wrap the last
// failure: others may have had other reasons.
func (s *Source) fruitless(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := &s.counts; {
	case !s.o.Needed || c.failures < c.requests:
	case c.requests > 0:
		return fmt.Errorf("profile %s: no request of %d succeeded; the last: %v", s.endpoint, c.requests, c.last)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("profile %s: there was no time for a profile of a second", s.endpoint)
	}
	return nil
}

// lastBreath is how long a process may take to end once its sockets are closed: the kernel closes them first
// (do_exit, Linux 6.18).
const lastBreath = 200 * time.Millisecond

// hasEnded reports whether the program is a process of this machine that has ended, or is about to.
func (s *Source) hasEnded(ctx context.Context) bool {
	if s.owner == nil {
		return false
	}
	for until := time.Now().Add(lastBreath); !s.owner.Gone() && time.Now().Before(until) && ctx.Err() == nil && !s.isFinished(); {
		s.wait(ctx, lastBreath/20)
	}
	return s.owner.Gone()
}

// balance adds the time of a profile, and compares the sum with the clock of the process. The time
// between two profiles is unaccounted.
func (s *Source) balance(more time.Duration) {
	if s.ledger == nil {
		return
	}
	s.ledger.Seen += more
	if now, ok := s.ledger.Read(); ok {
		s.mu.Lock()
		s.counts.loss = s.ledger.Balance(now)
		s.mu.Unlock()
	}
}

// length returns the seconds of the next profile; false if there is no time for one.
func (s *Source) length(ctx context.Context) (seconds int, ok bool) {
	seconds = s.endpoint.seconds(s.o.Seconds)
	if deadline, has := ctx.Deadline(); has {
		seconds = min(seconds, int(max(time.Until(deadline)-margin, 0)/time.Second))
	}
	return seconds, seconds > 0
}

// fetchProfile asks for one profile, and notes its description of the program.
func (s *Source) fetchProfile(ctx context.Context, seconds int) (*ccmap.Map, error) {
	if s.owner != nil {
		if err := s.owner.check(); err != nil {
			return nil, err
		}
	}
	s.mu.Lock()
	s.counts.requests++
	s.mu.Unlock()
	m, err := s.endpoint.profile(ctx, seconds, s.o.Read)
	if err != nil {
		return nil, err
	}
	total := m.Snapshot().Total()
	if unit := m.Meta().Unit; !total.IsZero() && unit != ccmap.CPUTime {
		return nil, served.Refuse(fmt.Errorf("%w: the profile is not of CPU time, but of %v", sampler.ErrUnsupported, unit))
	}
	if s.o.Sink.Names.Bytes()+m.Names().Bytes() > s.o.MaxNames {
		return nil, served.Refuse(fmt.Errorf("%w: %d MiB", served.ErrNames, s.o.MaxNames>>20))
	}
	if err := s.note(m, total.Samples); err != nil {
		return nil, err
	}
	if s.o.NoLabels {
		bare := ccmap.New(ccmap.Options{})
		if err := bare.Merge(m.Snapshot().WithoutLabels()); err != nil {
			return nil, err
		}
		m = bare
	}
	*m.Meta() = ccmap.Meta{Unit: ccmap.CPUTime}
	for _, origin := range []ccmap.Origin{ccmap.OriginSampled, ccmap.OriginBurst, ccmap.OriginImported, ccmap.OriginVM} {
		m.SetPoints(origin, nil)
	}
	return m, nil
}

// note takes in the description of a profile with so many samples.
func (s *Source) note(m *ccmap.Map, samples int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, meta := &s.counts, m.Meta()
	switch build := meta.Target.BuildID; {
	case build == "":
	case c.target.BuildID == "":
		c.target.BuildID = strings.Clone(build)
	case c.target.BuildID != build:
		return served.ErrReplaced
	}
	if c.target.Executable == "" {
		c.target.Executable = strings.Clone(meta.Target.Executable)
	}
	if n := len(meta.Interval); n > 0 {
		c.interval = meta.Interval[n-1].Interval
	}
	c.samples += uint64(samples)
	return nil
}

// fail counts a failed request.
func (s *Source) fail(err error) {
	s.mu.Lock()
	s.counts.failures++
	s.counts.last = err
	s.mu.Unlock()
	s.o.Logger.Info("no profile", "url", s.endpoint.String(), "error", err)
}

// wait waits, or until Run must end.
func (s *Source) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-s.finished:
	case <-ctx.Done():
	}
}

// Info describes the source. The build of the program is known after the first profile. Any
// goroutine may call it.
func (s *Source) Info() sampler.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	info := sampler.Info{Target: s.counts.target, Engine: Engine, Sink: s.o.Sink, Lacks: lacks}
	if s.o.Rest > 0 {
		info.Lacks += fmt.Sprintf(lacksRest, s.o.Rest)
	}
	return info
}

// Stats returns the figures so far. Any goroutine may call it.
func (s *Source) Stats() sampler.Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := sampler.Stats{Interval: s.counts.interval, Loss: s.counts.loss, NoCalls: "a pprof endpoint tells no calls"}
	st.Counts[sampler.Samples] = s.counts.samples
	if s.counts.failures > 0 {
		st.Warning = fmt.Sprintf("%d of %d requests for a profile failed, and the program was not profiled meanwhile; the last: %v",
			s.counts.failures, s.counts.requests, s.counts.last)
	}
	return st
}
