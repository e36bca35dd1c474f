package pprofhttp

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	nhpprof "net/http/pprof"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// listening returns a finder of which each process listens with the same sockets, on a clock of its own.
func listening(all *[]process.Listener, clock *time.Time) *Finder {
	return &Finder{listeners: func(int) ([]process.Listener, error) { return *all, nil }, now: func() time.Time { return *clock }}
}

// listenerOf returns the socket of a server.
func listenerOf(server *httptest.Server, inode string) process.Listener {
	return process.Listener{Inode: inode, Addresses: []netip.AddrPort{netip.MustParseAddrPort(server.Listener.Addr().String())}}
}

// TestSocketsAreAskedOnce: a socket that serves no profiles is left in peace for ten minutes. A new one is
// asked at once.
func TestSocketsAreAskedOnce(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	now, all := time.Unix(0, 0), []process.Listener{listenerOf(server, "1")}
	f := listening(&all, &now)
	look := func(ctx context.Context, want int64, text string) {
		t.Helper()
		_, err := f.Open(ctx, os.Getpid(), options(""))
		if ctx.Err() == nil && !errors.Is(err, ErrNoEndpoint) || err == nil || asked.Load() != want {
			t.Errorf("%s: %d requests, want %d; %v", text, asked.Load(), want, err)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	look(gone, 0, "a caller that has left")
	look(t.Context(), 1, "at first")
	now = now.Add(askAgain - 1)
	look(t.Context(), 1, "a moment later")
	all = append(all, listenerOf(server, "2"))
	look(t.Context(), 2, "another socket")
	now = now.Add(1)
	look(t.Context(), 3, "after ten minutes")
	now = now.Add(2 * askAgain)
	look(t.Context(), 5, "after half an hour")
	if n := len(f.asked); n != 2 {
		t.Errorf("%d answers are remembered", n)
	}
}

// TestOthersAreNotTaken: the endpoint of another program is not taken, and where this user may not look
// there is no word of no endpoint. Of two addresses the one that answers counts.
func TestOthersAreNotTaken(t *testing.T) {
	t.Parallel()
	other := serve(t, func(http.ResponseWriter, *http.Request, int) { t.Error("another program was profiled") })
	now, all := time.Unix(0, 0), []process.Listener{listenerOf(other, "1")}
	f := listening(&all, &now)
	if _, err := f.Open(t.Context(), os.Getpid(), options("")); !errors.Is(err, ErrNoEndpoint) {
		t.Errorf("another program's: %v", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", nhpprof.Cmdline)
	own := httptest.NewServer(mux)
	t.Cleanup(own.Close)
	closed := httptest.NewServer(mux)
	closed.Close()
	both := listenerOf(own, "2")
	both.Addresses = append(listenerOf(closed, "2").Addresses, both.Addresses...)
	all = append(all, both)
	s, err := f.Open(t.Context(), os.Getpid(), options(""))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	f.listeners = func(int) ([]process.Listener, error) { return nil, fs.ErrPermission }
	if _, err := f.Open(t.Context(), os.Getpid(), options("")); !errors.Is(err, sampler.ErrPermission) || errors.Is(err, ErrNoEndpoint) {
		t.Errorf("a process that may not be looked at: %v", err)
	}
}

// TestSocketIsLost: a process that no longer listens at the address, or not alone, is not asked for
// profiles, since another process may answer.
func TestSocketIsLost(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "main.f", "", 1)
	server := serve(t, always(whole))
	for name, later := range map[string][]process.Listener{
		"closed":          nil,
		"another socket":  {listenerOf(server, "2")},
		"another address": {{Inode: "1", Addresses: []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:1")}}},
	} {
		s := open(t, options(server.URL))
		p, err := process.Pin(os.Getpid())
		if err != nil {
			t.Fatal(err)
		}
		first := listenerOf(server, "1")
		looks := 0
		s.owner = &owner{Pinned: p, inode: "1", at: first.Addresses[0], list: func(int) ([]process.Listener, error) {
			if looks++; looks == 1 {
				return []process.Listener{first}, nil
			}
			return later, nil
		}}
		done, _ := start(t, s)
		<-s.Profiles()
		if e := <-done; !errors.Is(e.err, sampler.ErrUnsupported) || !strings.Contains(e.err.Error(), "no longer listens") || s.requests() != 1 {
			t.Errorf("%s: %+v after %d requests", name, e, s.requests())
		}
	}
}

// pipes is a network inside of this process, for the clock of a test.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	end    sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.end.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	p.conns <- server
	return client, nil
}

// TestRest: others have their turn between two requests, and Finish loses no profile.
func TestRest(t *testing.T) {
	t.Parallel()
	whole := encoded(t, "main.f", "", 1)
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		var asked []time.Duration
		mux := http.NewServeMux()
		mux.HandleFunc("/debug/pprof/profile", func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, time.Since(began))
			if len(asked) == 2 {
				http.Error(w, "cpu profiling already in use", http.StatusInternalServerError)
				return
			}
			time.Sleep(5 * time.Second) // of the bubble's clock
			w.Write(whole)
		})
		network := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
		server := &http.Server{Handler: mux}
		go server.Serve(network)
		o := options("http://127.0.0.1:1")
		o.Dial, o.Rest = network.dial, 10*time.Second
		s, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		s.pause = func(int) time.Duration { return 0 }
		done, _ := start(t, s)
		<-s.Profiles() // at 5 s; the next request, at 15 s, fails
		<-s.Profiles()
		if got, want := time.Since(began), 30*time.Second; got != want {
			t.Errorf("the second profile after %v, want %v", got, want)
		}
		time.Sleep(12 * time.Second) // into the third
		s.Finish()
		s.Finish()
		<-s.Profiles()
		if e := <-done; e.err != nil || e.Exited || time.Since(began) != 45*time.Second {
			t.Errorf("finished after %v: %+v", time.Since(began), e)
		}
		if want := []time.Duration{0, 15 * time.Second, 25 * time.Second, 40 * time.Second}; len(asked) != len(want) || asked[1] != want[1] || asked[3] != want[3] {
			t.Errorf("asked at %v, want %v", asked, want)
		}
		server.Close()
		synctest.Wait()
	})
}
