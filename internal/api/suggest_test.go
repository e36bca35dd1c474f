package api

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestSuggest: every route of a target tells what an unknown name was perhaps meant for.
func TestSuggest(t *testing.T) {
	t.Parallel()
	s := newServer(t, newFake(), Options{})
	for _, test := range []struct {
		method, path string
		peer         peer
		candidates   []string
	}{
		{"GET", "/v1/p/live:wbe/top", master, []string{"web"}},
		{"GET", "/v1/p/live:wbe:42/top", master, []string{"web"}},
		{"GET", "/v1/p/live:wbe/map", onTCP, []string{"web"}},
		{"GET", "/v1/p/live:wbe/top?pid=42", master, []string{"web"}},
		{"GET", "/v1/diff?a=live:web&b=live:bd", master, []string{"db"}},
		{"GET", "/targets/wbe/profile.pb.gz", master, []string{"web"}},
		{"GET", "/v1/targets/wbe", master, []string{"web"}},
		{"POST", "/v1/targets/wbe/pause", master, []string{"web"}},
		{"DELETE", "/v1/targets/wbe", master, []string{"web"}},
		{"DELETE", "/v1/targets/wbe", userOf(1000), []string{"web"}},
		{"GET", "/v1/p/live:wbe/top", userOf(70), nil},
		{"GET", "/v1/p/live:bd/top", userOf(1000), nil},
		{"GET", "/v1/p/live:nothing/top", master, nil},
		{"POST", "/v1/targets/wbe/pause", userOf(1000), nil}, // there is no such route for the user
	} {
		w := ask(s, test.peer, httptest.NewRequest(test.method, test.path, nil))
		var p client.Problem
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusNotFound || !slices.Equal(p.Candidates, test.candidates) {
			t.Errorf("%s %s of %v: %d %s", test.method, test.path, test.peer, w.Code, w.Body)
		}
	}
}

// TestSuggestNothingHidden: a peer gets the same answer about any name, whether the targets that it may not see are
// there or not.
func TestSuggestNothingHidden(t *testing.T) {
	t.Parallel()
	user := userOf(1000)
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.StringMatching(`[ab]{1,4}`)
		all, seen := newFake(), newFake()
		all.targets, seen.targets = nil, nil
		for n, name := range rapid.SliceOfNDistinct(name, 0, 8, rapid.ID).Draw(rt, "names") {
			owners := rapid.SampledFrom([][]int{{1000}, {70}, {1000, 70}, nil}).Draw(rt, "owners")
			one := daemon.TargetStatus{Name: name, State: daemon.Sampling, Processes: []daemon.ProcessStatus{{PID: n + 2}}, Owners: ownedBy(owners...)}
			one.OfHost = rapid.Bool().Draw(rt, "host")
			all.targets = append(all.targets, one)
			if user.sees(one) {
				seen.targets = append(seen.targets, one)
			}
		}
		asked := name.Draw(rt, "asked")
		if slices.ContainsFunc(seen.targets, func(t daemon.TargetStatus) bool { return t.Name == asked }) {
			return
		}
		for _, request := range []string{"GET /v1/targets/" + asked, "GET /v1/p/live:" + asked + "/top", "DELETE /v1/targets/" + asked} {
			method, path, _ := strings.Cut(request, " ")
			got := ask(newServer(t, all, Options{}), user, httptest.NewRequest(method, path, nil))
			want := ask(newServer(t, seen, Options{}), user, httptest.NewRequest(method, path, nil))
			if got.Code != want.Code || got.Body.String() != want.Body.String() {
				rt.Errorf("%s: %d %s\nwithout the hidden ones %d %s", request, got.Code, got.Body, want.Code, want.Body)
			}
		}
	})
}
