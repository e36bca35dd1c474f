package pprofhttp

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	nhpprof "net/http/pprof"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestSocketOfUser: where only the user of a socket is known, an endpoint is taken if a socket of the user has
// answered, no other process could have, and the program is the same build, or tells none.
func TestSocketOfUser(t *testing.T) {
	t.Parallel()
	var build atomic.Value
	build.Store("")
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", nhpprof.Cmdline)
	mux.HandleFunc("/debug/pprof/threadcreate", func(w http.ResponseWriter, r *http.Request) {
		if b := build.Load().(string); b != "" {
			w.Write(encoded(t, "main.f", b, 1))
			return
		}
		http.NotFound(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	mine := map[bool]uint32{true: uint32(os.Getuid()), false: 12345}
	none := errors.New("no table")
	for name, c := range map[string]struct {
		others bool // the socket that answers is another user's
		hidden bool // or no process has it any more
		tables error
		twin   bool
		has    string // build id of the executable
		told   string
		want   error // nil: it is taken

		unreadable error // the executable
	}{
		"taken":                   {},
		"the same build":          {has: "b1", told: "b1"},
		"a build that is told":    {told: "b1"},
		"a build that is not":     {has: "b1"},
		"another build":           {has: "b1", told: "b2", want: errHidden},
		"another user":            {others: true, want: errHidden},
		"closed meanwhile":        {hidden: true, want: errHidden},
		"tables cannot be read":   {tables: none, want: errHidden},
		"another of that command": {twin: true, want: errTwin},
		"a file that hangs":       {unreadable: hang.ErrHung, want: hang.ErrHung},
	} {
		build.Store(c.told)
		l := listenerOf(server, "1")
		l.OfUser = true
		all, now := []process.Listener{l}, time.Unix(0, 0)
		f := listening(&all, &now)
		f.Build = func(context.Context, int) (string, error) { return c.has, c.unreadable }
		f.twin = func(*process.Pinned) (bool, error) { return c.twin, nil }
		f.owners = func(of []process.Ends) (map[process.Ends]uint32, error) {
			owners := make(map[process.Ends]uint32)
			for _, ends := range of {
				if !c.hidden {
					owners[ends] = mine[!c.others]
				}
			}
			return owners, c.tables
		}
		s, err := f.Open(t.Context(), os.Getpid(), options(""))
		if !errors.Is(err, c.want) {
			t.Errorf("%s: error %v, want %v", name, err, c.want)
		}
		if err != nil {
			if c.unreadable == nil && (!errors.Is(err, sampler.ErrUnsupported) || !strings.Contains(err.Error(), "names")) {
				t.Errorf("%s: %v says not what to do", name, err)
			}
			continue
		}
		if got := s.Info().Target; got.BuildID != c.has || got.PID != os.Getpid() {
			t.Errorf("%s: %+v", name, got)
		}
		s.Close()
	}
}

// TestOwnersOfConnections asks the kernel's tables: a socket of this user has answered, and none of another's.
func TestOwnersOfConnections(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", nhpprof.Cmdline)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	for user, want := range maps.All(map[int]bool{os.Getuid(): true, os.Getuid() + 1: false}) {
		o := new(Finder).ofUser(options(server.URL), user)
		s, err := Open(t.Context(), o)
		if (err == nil) != want {
			t.Errorf("user %d: %v", user, err)
		}
		if err == nil {
			s.Close()
		}
	}
}

// TestTwin: of two processes with one command line each is the other's twin, as long as both live.
func TestTwin(t *testing.T) {
	t.Parallel()
	unique := t.TempDir()
	var programs [2]*exec.Cmd
	var in [2]io.Closer
	for i := range programs {
		programs[i] = exec.Command("cat", "-", unique)
		stdin, err := programs[i].StdinPipe()
		if err == nil {
			err = programs[i].Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		in[i] = stdin
	}
	p, err := process.Pin(programs[0].Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	is := func(want bool) {
		t.Helper()
		if twin, err := hasTwin(p); twin != want || err != nil {
			t.Errorf("%t, %v; want %t", twin, err, want)
		}
	}
	is(true)
	in[1].Close()
	programs[1].Wait() // it fails at the directory
	is(false)
	in[0].Close()
	programs[0].Wait()
}
