package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// found asks for methods of a build of web, page by page.
func (s *server) found(t *testing.T, methods []fleet.Wanted) (all fleet.Found[fanin.Entry], pages int) {
	t.Helper()
	for len(methods) > 0 {
		body, err := json.Marshal(fleet.Wanteds{Methods: methods[:min(len(methods), fleet.MostWanted)]})
		if err != nil {
			t.Fatal(err)
		}
		status, text := s.ask(t, "POST", "/v1/fanin"+ofWeb, "reader", body, "")
		var page fleet.Found[fanin.Entry]
		if err := json.Unmarshal([]byte(text), &page); status != http.StatusOK || err != nil {
			t.Fatalf("status %d, %.200s, error %v", status, text, err)
		}
		if err := fanin.List(page.List[:min(len(page.List), 1)]).Check(); err != nil {
			t.Error(err)
		}
		pages, all.Methods, all.List = pages+1, page.Methods, append(all.List, page.List...)
		if page.Next == 0 {
			page.Next = min(len(methods), fleet.MostWanted)
		}
		methods = methods[page.Next:]
	}
	return all, pages
}

// overloads returns a profile of a method of one name with so many signatures, two of which have other code, too.
func overloads(n int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	caller := m.Names().Intern(ccmap.Method{Name: "caller"})
	for i := range n {
		id := m.Names().Intern(ccmap.Method{Name: "many", Signature: fmt.Sprintf("(%d)", i), Body: uint64(i)})
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: id}, {Method: caller, Offset: 7}}, Weight: 1e6, Fresh: ccmap.FreshUnknown})
	}
	return m.Snapshot()
}

// TestFanInOfMethods: a list of keys is answered with the entries of the file that they name, all of them, in pages, and
// an unknown one with none. Limits and rights are those of other questions.
func TestFanInOfMethods(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	r := rand.New(rand.NewPCG(1, 1))
	for seq, profile := range []*ccmap.Snapshot{randomProfile(r, 20).Snapshot(), overloads(700)} {
		if status, text := s.post(t, "any", newSent(t, testKey("web", 1, uint64(seq+1)), profile).frame); status != http.StatusNoContent {
			t.Fatalf("status %d: %s", status, text)
		}
	}
	s.await(t, 2)
	_, text := s.ask(t, "GET", "/v1/fanin"+ofWeb, "reader", nil, "")
	file, err := fanin.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var wanted []fleet.Wanted
	for _, e := range file {
		wanted = append(wanted, fleet.Wanted{Method: e.Name, Signature: &e.Signature, Body: fmt.Sprintf("%x", e.Body)})
	}
	all, pages := s.found(t, append(wanted, fleet.Wanted{Method: "none"}, fleet.Wanted{Method: "many", Body: "ffff"}))
	if got, want := fmt.Sprintf("%+v", all.List), fmt.Sprintf("%+v", file); all.Methods != len(file) || pages != 1 || got != want {
		t.Errorf("%d methods on %d pages: %.2000s\nwant %.2000s", all.Methods, pages, got, want)
	}
	one := "(7)"
	for name, c := range map[string]struct {
		wanted      []fleet.Wanted
		want, pages int
	}{
		"a name": {[]fleet.Wanted{{Method: "many"}}, 700, 1}, "twice": {[]fleet.Wanted{{Method: "many"}, {Method: "many"}}, 1400, 2},
		"a signature": {[]fleet.Wanted{{Method: "many", Signature: &one}}, 1, 1}, "a body": {[]fleet.Wanted{{Method: "many", Body: "2a"}}, 1, 1},
		"no signature": {[]fleet.Wanted{{Method: "many", Signature: new(string)}}, 0, 1},
		"many":         {make([]fleet.Wanted, 2*fleet.MostWanted+1), 0, 3},
	} {
		if got, pages := s.found(t, c.wanted); len(got.List) != c.want || pages != c.pages {
			t.Errorf("%s: %d entries on %d pages, want %d on %d", name, len(got.List), pages, c.want, c.pages)
		}
	}
	key := []byte(`{"methods": [{"method": "many"}]}`)
	tooMany, err := json.Marshal(fleet.Wanteds{Methods: make([]fleet.Wanted, fleet.MostWanted+1)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		path, token string
		body        []byte
		want        int
	}{
		"a writer": {ofWeb, "any", key, 403}, "nobody": {ofWeb, "", key, 401}, "another target": {"?target=batch&build=1f0c", "web reader", key, 403},
		"no build": {"?target=web&build=none", "reader", key, 404}, "no target": {"", "reader", key, 400},
		"no JSON": {ofWeb, "reader", []byte("many"), 400}, "no hash": {ofWeb, "reader", []byte(`{"methods": [{"method": "many", "body": "xyz"}]}`), 400},
		"too many": {ofWeb, "reader", tooMany, 413}, "too much": {ofWeb, "reader", bytes.Repeat([]byte(" "), 2<<20), 413}, "its own": {ofWeb, "web reader", key, 200},
	} {
		if status, text := s.ask(t, "POST", "/v1/fanin"+c.path, c.token, c.body, ""); status != c.want || strings.Contains(text, "web-eu") {
			t.Errorf("%s: status %d, want %d: %.100s", name, status, c.want, text)
		}
	}
	if status, _ := s.ask(t, "GET", "/v1/fanin"+ofWeb+"&method=many&body=12zz", "reader", nil, ""); status != http.StatusBadRequest {
		t.Errorf("a body that is no hash: status %d", status)
	}
}

// TestUnchangedIsNotMade: for a client that has the file nothing is read of the bucket but the manifest. What was made
// once waits for nobody.
func TestUnchangedIsNotMade(t *testing.T) {
	t.Parallel()
	s := newServer(t, Quotas{})
	if status, text := s.post(t, "any", newSent(t, testKey("web", 1, 1), overloads(3)).frame); status != http.StatusNoContent {
		t.Fatalf("status %d: %s", status, text)
	}
	s.await(t, 1)
	m, err := s.hub.catalog.get(t.Context(), idOf(testKey("web", 1, 1)))
	if err != nil {
		t.Fatal(err)
	}
	release, err := s.hub.catalog.turn(t.Context()) // nothing else can be made
	if err != nil {
		t.Fatal(err)
	}
	defer func() { release() }()
	if status, text := s.ask(t, "GET", "/v1/fanin"+ofWeb, "reader", nil, m.tag()); status != http.StatusNotModified || text != "" {
		t.Errorf("status %d, %q", status, text)
	}
	release()
	_, whole := s.ask(t, "GET", "/v1/fanin"+ofWeb, "reader", nil, "")
	if release, err = s.hub.catalog.turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := s.ask(t, "GET", "/v1/fanin"+ofWeb, "reader", nil, ""); status != http.StatusOK || text != whole {
		t.Errorf("again: status %d, %d bytes of %d", status, len(text), len(whole))
	}
	if found, _ := s.found(t, []fleet.Wanted{{Method: "many"}}); len(found.List) != 3 {
		t.Errorf("of the same file: %+v", found)
	}
}
