package api

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/store"
)

// fake is a daemon whose targets grow by a sample whenever somebody looks.
type fake struct {
	mu       sync.Mutex
	maps     map[string]*ccmap.Map
	targets  []daemon.TargetStatus
	did      []string // what was asked of it
	asked    []int    // the processes whose profiles were asked for
	events   chan daemon.Event
	sick     error
	unloaded error                       // of the last reload
	attached daemon.TargetStatus         // the next one
	looked   func()                      // called when a profile was read
	recheck  func(*daemon.TargetStatus)  // called when the owners of a target are looked at again
	attach   func(context.Context) error // called before one is attached to; nil: nothing
	still    bool                        // no samples come
	stored   *store.Reader               // nil: nothing is kept
	keeping  daemon.Keeping
}

func newFake() *fake {
	f := &fake{maps: map[string]*ccmap.Map{"web": profiletest.Thicket(1), "db": profiletest.Thicket(2)}, events: make(chan daemon.Event, 10)}
	f.targets = []daemon.TargetStatus{
		{Name: "db", Rule: "exe /db", State: "sampling", Processes: []daemon.ProcessStatus{{PID: 7}}, Owners: ownedBy(70)},
		{Name: "web", Rule: "exe /web", State: "sampling", Processes: []daemon.ProcessStatus{{PID: 42}, {PID: 43}}, Owners: ownedBy(1000)},
	}
	return f
}

// addHost adds a target for the whole host.
func (f *fake) addHost() {
	f.maps["host"] = profiletest.Thicket(3)
	f.targets = append(f.targets, daemon.TargetStatus{
		Name: "host", Rule: "the whole host", State: "sampling", Processes: []daemon.ProcessStatus{{}}, Owners: []process.Owner{process.Unowned}, OfHost: true,
	})
}

func (f *fake) Targets() []daemon.TargetStatus {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.targets)
}

func (f *fake) Target(name string) (daemon.TargetStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return named(f.targets, name)
}

// named returns one of targets.
func named(targets []daemon.TargetStatus, name string) (daemon.TargetStatus, error) {
	i := slices.IndexFunc(targets, func(t daemon.TargetStatus) bool { return t.Name == name })
	if i < 0 {
		return daemon.TargetStatus{}, daemon.ErrNoTarget
	}
	return targets[i], nil
}

func (f *fake) Snapshot(ctx context.Context, target string, pid int) (*ccmap.Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	f.asked = append(f.asked, pid)
	m, ok := f.maps[target]
	if !ok {
		return nil, daemon.ErrNoProfile
	}
	if !f.still {
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: m.Names().Intern(ccmap.Method{Name: "new"})}}, Weight: 10, Fresh: ccmap.FreshUnknown})
	}
	if f.looked != nil {
		f.looked()
	}
	return m.Snapshot(), nil
}

func (f *fake) do(what string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.did = append(f.did, what)
	return nil
}

func (f *fake) done() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.did)
}

func (f *fake) askedFor() []int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.asked)
}

// Recheck returns the target as recheck changes it.
func (f *fake) Recheck(target string) (daemon.TargetStatus, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.targets, func(t daemon.TargetStatus) bool { return t.Name == target })
	if i < 0 {
		return daemon.TargetStatus{}, daemon.ErrNoTarget
	}
	if f.recheck != nil {
		f.recheck(&f.targets[i])
	}
	return f.targets[i], nil
}

func (f *fake) Attach(ctx context.Context, _ int) (string, error) {
	if f.attach != nil {
		if err := f.attach(ctx); err != nil {
			return "", err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.attached.Name == "" {
		return "", errors.New("nothing to attach to")
	}
	f.targets = append(f.targets, f.attached)
	return f.attached.Name, nil
}

// History has three minutes of web, in the second of which nothing is sampled.
func (f *fake) History(target string, since time.Time) ([]daemon.Minute, error) {
	if target != "web" {
		return nil, daemon.ErrNoTarget
	}
	begin := time.Unix(1_800_000_000, 0)
	var rows []daemon.Minute
	for i := range 3 {
		m := daemon.Minute{At: begin.Add(time.Duration(i+1) * time.Minute), Lasted: time.Minute}
		if i != 1 {
			m.Samples, m.Lost, m.Known, m.Again, m.Interval, m.Sampled = 600, 200, 100, 10, 10*time.Millisecond, 30*time.Second
		}
		if m.At.After(since) {
			rows = append(rows, m)
		}
	}
	return rows, nil
}

func (f *fake) Detach(target string) error                    { return f.do("detach " + target) }
func (f *fake) Pause(target string) error                     { return f.do("pause " + target) }
func (f *fake) Resume(target string) error                    { return f.do("resume " + target) }
func (f *fake) Rotate(_ context.Context, target string) error { return f.do("rotate " + target) }
func (f *fake) Reload() error                                 { return f.do("reload") }
func (f *fake) LastReload() error                             { return f.unloaded }
func (f *fake) Ready() error                                  { return f.sick }
func (f *fake) Healthy() error                                { return f.sick }

func (f *fake) Events(uint64) (<-chan daemon.Event, func()) { return f.events, func() {} }

func (f *fake) Stored() *store.Reader { return f.stored }

func (f *fake) Keeping() (daemon.Keeping, bool) { return f.keeping, f.stored != nil }

// Peers of tests.
var (
	master   = peer{known: true, reads: true, master: true}
	onTCP    = peer{known: true, reads: true, tcp: true}
	userOf   = func(uid uint32) peer { return peer{known: true, uid: uid, gid: uid, free: true} }
	stranger = peer{}
)

// ownedBy returns the owners of plain processes of users, each with a group of its number.
func ownedBy(users ...int) (owners []process.Owner) {
	for _, u := range users {
		owners = append(owners, process.Owner{UID: u, GID: u, Traceable: true})
	}
	return owners
}

// newServer returns a server of a fake.
func newServer(t *testing.T, f *fake, o Options) *Server {
	t.Helper()
	o.Daemon = f
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ask sends a request of a peer to a server.
func ask(s *Server, p peer, r *http.Request) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.Host = "localhost"
	s.ServeHTTP(w, r.WithContext(withPeer(r.Context(), p)))
	return w
}

// get asks for a path.
func get(s *Server, p peer, path string) *httptest.ResponseRecorder {
	return ask(s, p, httptest.NewRequest(http.MethodGet, path, nil))
}

// serve has a server listen on a socket until the test ends.
func serve(t *testing.T, f *fake, o Options) (socket string, s *Server) {
	t.Helper()
	socket = filepath.Join(t.TempDir(), "s")
	o.Socket = socket
	s = newServer(t, f, o)
	if err := s.Listen(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return socket, s
}

// dial connects to a socket.
func dial(t *testing.T, socket string) net.Conn {
	t.Helper()
	c, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(time.Minute))
	return c
}
