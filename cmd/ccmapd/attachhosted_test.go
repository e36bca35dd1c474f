package main

import (
	"context"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/api"
)

// growing is a session whose map has ten samples more at each look.
type growing struct {
	m    *ccmap.Map
	last atomic.Pointer[ccmap.Snapshot]
}

func newGrowing() *growing {
	g := &growing{m: ccmap.New(ccmap.Options{})}
	g.m.Meta().Start = time.Now()
	g.last.Store(g.m.Snapshot())
	return g
}

func (g *growing) Snapshot() *ccmap.Snapshot { return g.last.Load() }

// Fresh is called by one request at a time.
func (g *growing) Fresh(context.Context) (*ccmap.Snapshot, error) {
	id := g.m.Names().Intern(ccmap.Method{Name: "guest.main"})
	for range 10 {
		g.m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id, Offset: 1}}, Thread: 1, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	g.last.Store(g.m.Snapshot())
	return g.last.Load(), nil
}

// TestURLOfHostedVMs: attach follows a program that hosts VMs, without what it had counted before, and doctor
// says so.
func TestURLOfHostedVMs(t *testing.T) {
	t.Parallel()
	guests, mux := newGrowing(), http.NewServeMux()
	mux.Handle("/debug/ccmapd/", http.StripPrefix("/debug/ccmapd", api.Handler(map[string]api.Session{"guests": guests})))
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	url := server.URL + "/debug/ccmapd"
	out := filepath.Join(t.TempDir(), "out.json")
	r := runEngines(t, nil, "attach", url, "-d", "4s", "-o", out)
	if r.code != exitOK || !strings.Contains(r.stderr, "by hosted (the VMs that it hosts sample themselves, over HTTP)") || !strings.Contains(r.stdout, "guest.main") {
		t.Errorf("%+v", r)
	}
	m, _, err := export.ReadFile(out, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s, want := m.Snapshot(), guests.Snapshot().Total().Samples-10
	if got := s.Total().Samples; got != want || s.Meta().Engine != "hosted" {
		t.Errorf("%d samples by engine %q, want %d: all but those of the first look", got, s.Meta().Engine, want)
	}
	r = runEngines(t, nil, "doctor", url)
	if r.code != exitOK || !strings.Contains(r.stdout, "samples since the start") || !strings.Contains(r.stdout, "ok   engine hosted: permitted") {
		t.Errorf("%+v", r)
	}
}
