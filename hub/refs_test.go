package hub

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// send sends a contribution of a build as a writer of all targets.
func (s *server) send(t testing.TB, target, build string, instance int, profile *ccmap.Snapshot) sent {
	t.Helper()
	k := testKey(target, instance, 1)
	k.Build, k.From, k.To = build, time.Now().Add(-2*time.Minute), time.Now().Add(-time.Minute)
	c := newSent(t, k, profile)
	if status, text := s.post(t, "any", c.frame); status != http.StatusNoContent {
		t.Fatalf("status %d: %s", status, text)
	}
	return c
}

// TestReferences asks for profiles by reference, and is told of candidates, of targets that the token permits alone.
func TestReferences(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(31, 0))
	var all []sent
	for i, of := range [][2]string{{"web", "1f0c"}, {"web", "1f0d"}, {"web", "22"}, {"batch", "1f0c"}} {
		all = append(all, s.send(t, of[0], of[1], i+1, usual().window(r, 50+i)))
		s.await(t, i+1)
	}
	for _, test := range []struct {
		token, ref string
		want       int // contribution; -1: an error
		candidates string
	}{
		{"reader", "best:web", 2, ""}, {"reader", "build:web", 2, ""}, {"reader", "class-0:web", 2, ""}, {"reader", "period:web", 2, ""},
		{"reader", "best:web@1f0c", 0, ""}, {"reader", "best:batch", 3, ""}, {"web reader", "best:web@22", 2, ""},
		{"reader", "best:web@1f", -1, "1f0d 1f0c"}, {"reader", "best:web@3", -1, "22 1f0d 1f0c"},
		{"reader", "best:wep", -1, "batch web"}, {"web reader", "best:batch", -1, "web"},
		{"reader", "class-1:web", -1, "best build class-N period"}, {"reader", "class-9:web", -1, "best build class-N period"},
		{"reader", "recent:web", -1, "best build class-N period"}, {"reader", "web", -1, "best build class-N period"},
		{"reader", "period:web@2001-01-01", -1, ""}, {"reader", "period:web@never", -1, "today yesterday this-week last-week"},
		{"reader", "best:web?event=alloc_space", -1, "batch web"},
	} {
		status, text := s.ask(t, "GET", "/v1/p/"+test.ref, test.token, nil, "")
		if test.want < 0 {
			var p client.Problem
			if err := json.Unmarshal([]byte(text), &p); err != nil || status < 400 || p.Code == "" || strings.Join(p.Candidates, " ") != test.candidates {
				t.Errorf("%s: status %d, %s", test.ref, status, text)
			}
			continue
		}
		m, _, err := export.Read(strings.NewReader(text), export.ReadOptions{})
		if status != http.StatusOK || err != nil {
			t.Errorf("%s: status %d, error %v", test.ref, status, err)
			continue
		}
		want := ccmap.New(ccmap.Options{})
		if err := want.Merge(all[test.want].profile); err != nil {
			t.Fatal(err)
		}
		if bytesOf(t, m) != bytesOf(t, want) {
			t.Errorf("%s is not contribution %d", test.ref, test.want)
		}
	}
	if status, _ := s.ask(t, "GET", "/v1/p/best:web", "any", nil, ""); status != http.StatusForbidden {
		t.Errorf("a writer reads: status %d", status)
	}
	day := time.Now().UTC().Format("2006-01-02")
	if status, text := s.ask(t, "GET", "/v1/p/period:web@"+day, "reader", nil, ""); status != http.StatusOK && time.Now().UTC().Hour() > 0 {
		t.Errorf("the hours of today: status %d, %s", status, text)
	}
	var d fleet.Description
	_, text := s.ask(t, "GET", "/v1/build?target=web&build=22", "reader", nil, "")
	if err := json.Unmarshal([]byte(text), &d); err != nil || len(d.ClassList) != 1 || d.ClassList[0].Samples != 52 || len(d.Times) != 1 || d.Build.Build != "22" {
		t.Errorf("the build: %s, error %v", text, err)
	}
	if status, text := s.ask(t, "GET", "/v1/outliers", "reader", nil, ""); status != http.StatusOK || text != "[]\n" {
		t.Errorf("outliers: status %d, %s", status, text)
	}
}

// TestNearest: the build is first whose weight is most in methods that still exist; the answer equals a sum by hand.
func TestNearest(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	profile := func(bodies ...uint64) *ccmap.Snapshot { // method i has weight i+1
		m := ccmap.New(ccmap.Options{})
		for i, body := range bodies {
			id := m.Names().Intern(ccmap.Method{Name: string(rune('a' + i)), Body: body})
			for range i + 1 {
				m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}}, Weight: 1e7, Fresh: ccmap.FreshUnknown})
			}
		}
		return m.Snapshot()
	}
	s.send(t, "web", "old", 1, profile(1, 2, 3))
	s.send(t, "web", "older", 2, profile(1, 9, 3))
	s.send(t, "web", "unlike", 3, profile(7, 8, 9))
	s.send(t, "batch", "other", 4, profile(1, 2, 3))
	s.await(t, 4)
	var mine []fleet.Method
	table, err := methodsOf(profile(1, 2, 4))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(table, &mine); err != nil {
		t.Fatal(err)
	}
	ask := func(methods []byte) (text string, list []fleet.Near) {
		status, answer := s.ask(t, "POST", "/v1/nearest?target=web", "reader", methods, "")
		if err := json.Unmarshal([]byte(answer), &list); status != http.StatusOK || err != nil {
			t.Fatalf("status %d: %s, error %v", status, answer, err)
		}
		for _, n := range list {
			text += " " + n.Build.Build
		}
		return text, list
	}
	got, list := ask(table)
	if want := []float64{100 * 3. / 6, 100 * 1. / 6, 0}; got != " old older unlike" || list[0].Kept != want[0] || list[1].Kept != want[1] || list[2].Kept != want[2] {
		t.Errorf("nearest%s: %+v, want %v", got, list, want)
	}
	// of a build that is known, the others are listed, the same way
	var others []fleet.Near
	status, text := s.ask(t, "GET", "/v1/nearest?target=web&build=old", "web reader", nil, "")
	if err := json.Unmarshal([]byte(text), &others); status != http.StatusOK || err != nil || len(others) != 2 ||
		others[0].Build.Build != "older" || others[0].Kept != 100*4./6 || others[1].Kept != 0 {
		t.Errorf("beside old: status %d, %s, error %v", status, text, err)
	}
	for path, want := range map[string]int{"?target=web&build=none": 404, "?target=batch&build=other": 403, "?target=web": 400} {
		if status, text := s.ask(t, "GET", "/v1/nearest"+path, "web reader", nil, ""); status != want {
			t.Errorf("%s: status %d, %s", path, status, text)
		}
	}
	if got, _ := ask([]byte("[]")); len(strings.Fields(got)) != 3 {
		t.Errorf("for a program of which nothing is known:%s", got)
	}
	for _, bad := range []string{"", "{}", "[1]"} {
		if status, _ := s.ask(t, "POST", "/v1/nearest?target=web", "reader", []byte(bad), ""); status != http.StatusBadRequest {
			t.Errorf("%q: status %d", bad, status)
		}
	}
	if status, _ := s.ask(t, "POST", "/v1/nearest?target=web", "any", table, ""); status != http.StatusForbidden {
		t.Errorf("a writer asks: status %d", status)
	}
	if !slices.ContainsFunc(mine, func(m fleet.Method) bool { return m.Body != "" }) || bytes.Equal(table, []byte("[]")) {
		t.Error("the methods have no bodies: the test tests nothing")
	}
}
