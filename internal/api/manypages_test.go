package api

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/process"
)

// port is a server whose connections come through pipes, from users of this machine by the thousands of their ports.
type port struct {
	callers callers
	next    atomic.Int64
}

func newPort(s *Server) (p *port, end func()) {
	p = &port{callers: callers{come: make(chan net.Conn), closed: make(chan struct{})}}
	s.crowd.spans = func() []span { return nil }
	s.crowd.owners = func(of []process.Ends) (map[process.Ends]uint32, error) {
		owners := make(map[process.Ends]uint32)
		for _, e := range of {
			owners[e] = uint32(e.Local.Port() / 1000)
		}
		return owners, nil
	}
	l := s.newListener(p.callers)
	ended := make(chan error)
	go func() { ended <- l.serve() }()
	return p, func() { l.server.Close(); <-ended }
}

// browser returns a client with the six connections that a browser has.
func (p *port) browser(user int) *http.Client {
	dial := func(context.Context, string, string) (net.Conn, error) {
		theirs, ours := net.Pipe()
		p.callers.come <- caller{theirs, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1000*user + int(p.next.Add(1)%1000)}}
		return ours, nil
	}
	return &http.Client{Transport: &http.Transport{DialContext: dial, MaxConnsPerHost: 6}}
}

// Addr makes callers a listener of a port.
func (l callers) Addr() net.Addr { return caller{}.LocalAddr() }

// follower is a page that follows a target, as web/src/live.ts does: it asks for all that it shows, one after the other,
// with the tags of the answers that it has, and then when the server wants to be asked.
type follower struct {
	client *http.Client
	tags   map[string]string // by path
	rounds int
	failed string
}

func (f *follower) follow(ctx context.Context) {
	for ctx.Err() == nil {
		wait := leastAsk
		for path, tag := range f.tags {
			after, err := f.ask(ctx, path, tag)
			if err != nil && ctx.Err() == nil {
				f.failed = err.Error()
			}
			wait = max(wait, after)
		}
		f.rounds++
		select {
		case <-time.After(wait):
		case <-ctx.Done():
		}
	}
}

func (f *follower) ask(ctx context.Context, path, tag string) (after time.Duration, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://localhost"+path, nil)
	if err != nil {
		return 0, err
	}
	if tag != "" {
		r.Header.Set("If-None-Match", tag)
	}
	w, err := f.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer w.Body.Close()
	if text, err := io.ReadAll(w.Body); err != nil || w.StatusCode != http.StatusOK && w.StatusCode != http.StatusNotModified {
		return 0, fmt.Errorf("%s: %d %s, %v", path, w.StatusCode, text, err)
	}
	f.tags[path] = w.Header.Get("ETag")
	seconds, err := strconv.Atoi(w.Header.Get(askHeader))
	return time.Duration(seconds) * time.Second, err
}

// TestManyPages: a thousand pages in ten browsers, each of which shows something of its own, follow a target that always
// changes. After their first answers all together take a share of a core, by counted work; none is refused or left out;
// what is kept for them is bounded; and who asks something else meanwhile has an answer.
func TestManyPages(t *testing.T) {
	if testing.Short() {
		t.Skip("sends some thousand requests")
	}
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pages, browsers, cost, settling, while = 1000, 10, 5 * time.Millisecond, time.Minute, 2 * time.Hour
		f := newFake()
		f.maps["web"] = ccmap.New(ccmap.Options{}) // which begins without samples
		s := newServer(t, f, Options{})
		var used atomic.Int64
		spent := s.shares.spent
		s.shares.spent = func(ctx context.Context, _ time.Duration) { // the same for each piece of work, on whatever machine
			if follows(ctx) {
				used.Add(int64(cost))
			}
			spent(ctx, cost)
		}
		p, end := newPort(s)
		defer end()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan bool, pages)
		all := make([]*follower, pages)
		for i := range all {
			if i < browsers {
				all[i] = &follower{client: p.browser(i + 1)}
			} else {
				all[i] = &follower{client: all[i%browsers].client}
			}
			all[i].tags = map[string]string{"/v1/p/live:web/meta": "", fmt.Sprintf("/v1/p/live:web/flame?width=2048&frames=%d", 100+i): ""}
			go func() { all[i].follow(ctx); ended <- true }()
		}
		time.Sleep(settling)
		began, before := time.Now(), used.Load()
		for time.Since(began) < while {
			time.Sleep(time.Minute)
			for _, path := range []string{"/v1/targets", "/v1/p/live:db/top", "/healthz"} {
				if w := get(s, master, path); w.Code != http.StatusOK {
					t.Errorf("beside the pages %s: %d %s", path, w.Code, w.Body)
				}
			}
			s.shares.mu.Lock()
			if s.shares.bytes > mostShared || s.shares.recent.Len() > mostKept {
				t.Errorf("%d bytes of %d answers are kept", s.shares.bytes, s.shares.recent.Len())
			}
			s.shares.mu.Unlock()
		}
		if took, most := time.Duration(used.Load()-before), time.Duration(liveShare*float64(while)); took > most+most/20 || took < most/2 {
			t.Errorf("%d pages: %v of CPU time in %v, want some %v", pages, took, while, most)
		}
		stop()
		for range all {
			<-ended
		}
		for i, f := range all {
			if f.failed != "" || f.rounds < 3 {
				t.Errorf("page %d has asked %d times: %s", i, f.rounds, f.failed)
			}
			f.client.CloseIdleConnections()
		}
	})
}

// TestTurnedAway: a thousand connections of a user at once. Those beyond the bound are told what to do, as a page shows
// it, and the socket answers.
func TestTurnedAway(t *testing.T) {
	t.Parallel()
	socket, s := serve(t, newFake(), Options{TCP: "127.0.0.1:0"})
	var all []net.Conn
	for i := range 1000 {
		c, err := net.Dial("tcp", s.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(time.Minute))
		if i < mostOfOneLocal { // at once: who asks nothing is let go
			fmt.Fprint(c, "GET /v1/targets HTTP/1.1\r\nHost: localhost\r\n\r\n")
		}
		all = append(all, c)
	}
	var in, out int
	for _, c := range all {
		w, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		var p client.Problem
		switch err := json.NewDecoder(w.Body).Decode(&p); {
		case w.StatusCode == http.StatusOK && err == nil:
			in++
		case w.StatusCode == http.StatusServiceUnavailable && err == nil && w.Header.Get("Retry-After") == "1" && strings.Contains(p.Detail, "connections") && strings.Contains(p.Hint, "Close pages"):
			out++
		default:
			t.Fatalf("%d %+v: %v", w.StatusCode, p, err)
		}
	}
	if in != mostOfOneLocal || out != 1000-mostOfOneLocal {
		t.Errorf("%d are answered, %d turned away", in, out)
	}
	c := dial(t, socket)
	fmt.Fprint(c, "GET /v1/targets HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if got := status(bufio.NewReader(c)); got != http.StatusOK {
		t.Errorf("the socket: %d", got)
	}
}
