// Package api answers HTTP requests about the targets of a daemon: their profiles, and what is
// hot in them, while they are sampled. docs/daemon.md has the routes.
//
//  1. [Server.Listen] opens a socket and perhaps a TCP port. The number of connections is
//     bounded, in all and of each user. Requests of pages of other sites are refused.
//  2. The kernel names the peer of a connection to the socket, and a web configuration the user
//     of a request to the port. The peer may see and do more or less: on the socket, what the kernel
//     would let it trace. A target that it may not see does not exist for it.
//  3. A reference names a profile: the one of a target, a stored one, or an upload. Every answer is made from
//     one immutable snapshot.
//  4. Answers are made in memory, a few at a time, and shared by all that ask for the same of
//     the same snapshot. Then they are sent: a client that takes nothing for half a
//     minute is cut off.
//
// A client names no file and no address that the server opens, writes or connects to. It may name a
// process that it may see, to have it sampled or ask doctor about it. Where no better engine is
// permitted, the daemon asks that process's own listeners on loopback for its profiles; doctor asks
// them always. All answers are bytes for the client.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/audit"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/pages"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Profiles are targets with their profiles. Any goroutine may call it.
type Profiles interface {
	// Targets returns all targets by name.
	Targets() []daemon.TargetStatus

	// Target returns one target. The error is [daemon.ErrNoTarget] if there is none of the name.
	Target(name string) (daemon.TargetStatus, error)

	// Snapshot returns the profile of a target, or of one of its processes, published after the call.
	Snapshot(ctx context.Context, target string, pid int) (*ccmap.Snapshot, error)
}

// Daemon answers the questions of the routes; [daemon.Daemon] is one. Any goroutine may call it.
type Daemon interface {
	Profiles

	// Recheck returns a target with the owners that its processes have now.
	Recheck(target string) (daemon.TargetStatus, error)

	Attach(ctx context.Context, pid int) (target string, err error)
	Detach(target string) error
	Pause(target string) error
	Resume(target string) error
	Rotate(ctx context.Context, target string) error
	Reload() error
	LastReload() error // nil: the configuration in force is the latest

	// Stored returns a reader of the stored profiles; nil: none are kept.
	Stored() *store.Reader

	// Keeping says how profiles are kept; false: none are.
	Keeping() (daemon.Keeping, bool)

	// Events returns the events after a number that are still known, and then those to come,
	// until cancel is called.
	Events(since uint64) (events <-chan daemon.Event, cancel func())

	// History returns the minutes of a target that ended after a time, of the last day.
	History(target string, since time.Time) ([]daemon.Minute, error)

	Ready() error   // nil: the first scan is done
	Healthy() error // nil: it samples
}

// Options say where a server listens, and for whom.
type Options struct {
	Daemon  Daemon          // required
	Version string          // of the program
	Engines []engine.Engine // that the daemon attaches by
	Logger  *slog.Logger    // nil discards

	Memory int64   // of the daemon, bytes: uploads get a part; 0: no limit
	CPU    float64 // of the daemon, cores: uploads get a part; 0: no limit

	Spent func(cpu time.Duration) // is told the CPU time of answers, but not of uploads; nil: not told

	Socket string // path; "": none
	Open   bool   // every user may connect, and sees the processes that they may trace; else root, the server's user and the group
	Group  string // whose members may do everything; "": none
	TCP    string // address whose users may read everything; "": none

	// FullMetrics adds what no alert asks for to the metrics: 26 series a target in place of 12, and times by route.
	FullMetrics bool

	// Fleet is the hub whose profiles have references as @hub/best:NAME, for those who may read all; nil: there is none.
	Fleet Fleet

	// Pages are what browsers get on TCP, beside the routes; nil: none.
	Pages *pages.Shell

	// WebConfig is a file of exporter-toolkit with TLS and users for TCP. Without it TCP is of
	// loopback only.
	WebConfig string

	// Opened are Unix sockets that the service manager has opened, with their owner and mode, in
	// place of Socket.
	Opened []net.Listener
}

// Server answers requests. Any goroutine may call ServeHTTP.
type Server struct {
	options  Options
	profiles Profiles
	embedded bool   // in a program that has bounds of its own
	files    []File // of this process, file:1 and so on; nil for a daemon
	others   bool   // the fleet has all references that this process has not
	group    int    // -1: none
	user     int
	handler  http.Handler

	recent     *recent
	shares     *shares
	pace       *pace
	uploads    *uploads
	archive    *archive
	doctors    *doctors
	metrics    *metrics
	guard      *guard
	crowd      *crowd
	gate       *gate // nil: there is no web configuration
	refusals   *refusals
	scope      func() process.Scope // in force; tests have their own
	audit      *audit.Log
	header     time.Duration      // that a request's header may take; tests have a longer one
	stall      time.Duration      // that a body may make no progress; tests have a shorter one
	streams    *guard             // of events
	fleetTurns chan struct{}      // holds a token for each request to the hub
	waits      *guard             // over TCP, for samples of the next time
	ends       context.CancelFunc // of all answers that have no end of their own
	ending     context.Context

	listeners []listener
}

// New returns a server that does not listen yet.
func New(o Options) (*Server, error) {
	if o.Daemon == nil {
		return nil, errors.New("make server: a daemon is required")
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	group, err := groupID(o.Group, o.Logger)
	if err != nil {
		return nil, err
	}
	s := makeServer(o.Daemon, o)
	s.group, s.handler = group, s.routes()
	switch {
	case o.TCP == "":
	case o.WebConfig != "":
		s.gate, err = newGate(s)
	case !isLoopback(o.TCP):
		err = fmt.Errorf("listen on %s: without web_config, which adds TLS and users, only addresses of loopback are permitted: for example 127.0.0.1:7070", o.TCP)
	}
	if err != nil {
		return nil, err
	}
	return s, nil
}

// makeServer makes the parts of a server.
func makeServer(p Profiles, o Options) *Server {
	pace := newPace(time.Now)
	spent := func(ctx context.Context, cpu time.Duration) {
		if follows(ctx) {
			pace.charge(peerOf(ctx).name(), cpu)
		}
		if o.Spent != nil {
			o.Spent(cpu)
		}
	}
	s := &Server{
		pace: pace, options: o, profiles: p, group: -1, user: os.Geteuid(), header: headerTime, stall: stallTime, refusals: &refusals{log: o.Logger}, scope: process.ReadScope, audit: newAudit(o),
		recent: newRecent(p), shares: newShares(spent), uploads: newUploads(time.Now, o.Memory, o.CPU), doctors: newDoctors(o.Engines),
		guard: newGuard(mostConnections, mostOverTCP, mostOfOneUser), streams: newGuard(mostStreams, mostStreamsOnTCP, mostStreamsOfUser),
		fleetTurns: make(chan struct{}, mostOfFleet), waits: newGuard(mostWaits, mostWaits, mostWaitsOfUser),
	}
	s.archive = newArchive(s.uploads)
	s.ending, s.ends = context.WithCancel(context.Background())
	s.crowd = newCrowd(func(cpu time.Duration) { s.shares.spent(context.Background(), cpu) })
	s.metrics = newMetrics(s)
	return s
}

// ServeHTTP answers one request. A request that did not come through a listener of the
// server may do nothing.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.expectBody(w, r)
	s.handler.ServeHTTP(w, r)
}

// expectBody bounds the time for a body, which net/http waits for without a deadline if no
// handler reads it.
func (s *Server) expectBody(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.stall))
	}
}

// route is a route with the right that it needs.
type route struct {
	pattern string
	needs   access
	answer  func(*call) error
}

// readingRoutes returns the routes that need profiles alone. Each comparison has a route of its own.
func readingRoutes() []route {
	all := []route{
		{"GET /v1/targets", anybody, (*call).targets},
		{"GET /v1/targets/{target}", anybody, (*call).target},
		{"GET /v1/p/{ref}/{view}", anybody, (*call).view},
	}
	for _, q := range view.Questions() {
		if q.Subject.Compares() {
			all = append(all, route{"GET /v1/" + q.Name, anybody, func(c *call) error { return c.compare(q) }})
		}
	}
	return all
}

// routes returns all routes. The methods and their paths are exact: anything else is 404 or
// 405.
func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	for _, r := range append(readingRoutes(), []route{
		{"GET /healthz", anybody, (*call).healthz},
		{"GET /readyz", anybody, (*call).readyz},
		{"GET /metrics", readers, (*call).scrape},
		{"GET /v1/info", anybody, (*call).info},
		{"POST /v1/targets", anybody, (*call).attach},
		{"DELETE /v1/targets/{target}", anybody, (*call).detach},
		{"GET /v1/targets/{target}/periods", anybody, (*call).periods},
		{"POST /v1/targets/{target}/{action}", masters, (*call).act},
		{"POST /v1/reload", masters, (*call).reload},
		{"GET /targets/{target}/{view}", anybody, (*call).viewOfTarget},
		{"POST /v1/uploads", anybody, (*call).upload},
		{"GET /v1/events", anybody, (*call).events},
		{"GET /v1/doctor", anybody, (*call).doctor},
		{"GET /v1/fleet/{about}", readers, (*call).askFleet},
		{"GET /v1/p/{ref}/tuning", anybody, (*call).tuning},
	}...) {
		mux.Handle(r.pattern, s.metrics.timed(r.pattern, s.route(r.needs, r.answer)))
	}
	if s.options.Pages != nil {
		for _, pattern := range s.options.Pages.Patterns() {
			mux.Handle(pattern, s.route(anybody, (*call).page))
		}
	}
	mux.Handle("/", s.route(anybody, func(c *call) error { return c.unknown(mux) }))
	return s.ownHost(s.ownSite(mux))
}

// call is one request.
type call struct {
	*Server
	*http.Request
	w    http.ResponseWriter
	peer peer
}

// route returns the handler of a route. An error of answer becomes the response, unless one
// has been begun.
func (s *Server) route(needs access, answer func(*call) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &call{Server: s, Request: withFollower(r), w: w, peer: peerOf(r.Context())}
		if !c.peer.reads {
			c.peer.scope = s.scope()
		}
		err := c.peer.may(needs)
		if err == nil {
			err = answer(c)
		}
		if err != nil {
			c.fail(err)
		}
	})
}

// refuse answers a request that no route gets.
func (s *Server) refuse(w http.ResponseWriter, r *http.Request, err error) {
	(&call{Server: s, Request: r, w: w, peer: peerOf(r.Context())}).fail(err)
}
