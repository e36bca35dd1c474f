package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// TestDaemonAsksItsHub: the daemon asks the hub of its configuration with the token that reads, and tells nothing that
// the hub says where it should answer: it may repeat the token.
func TestDaemonAsksItsHub(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	var asked []string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.RequestURI())
		w.WriteHeader(status)
		w.Write([]byte(`[{"target": "web", "build": "1f0c", "unit": "cpu/nanoseconds"}] ` + strings.Repeat(r.Header.Get("Authorization"), status/400)))
	}))
	defer hub.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	pages := pagesOfDaemon(func() *config.Config { return c })
	if _, err := pages.Ask(t.Context(), "targets", "", "", "cpu"); advice.CodeOf(err) != advice.CodeNoTarget {
		t.Errorf("without a hub: %v", err)
	}
	c.Hub = config.Hub{URL: hub.URL, ReadTokenFile: token}
	if got, err := pages.Ask(t.Context(), "targets", "", "", "cpu"); err != nil || got.([]fleetTarget)[0].Target != "web" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := pages.Profile(t.Context(), "@hub/best:web@1/2", "", 1<<20); err != nil {
		t.Error(err)
	}
	if _, err := pages.Profile(t.Context(), "@hub/best:web", "wait", 4); err == nil {
		t.Error("a profile beyond the bound is taken")
	}
	if want := []string{"/v1/builds?limit=500", "/v1/p/best:web@1%2F2?event=cpu", "/v1/p/best:web?event=wait"}; strings.Join(asked, " ") != strings.Join(want, " ") {
		t.Errorf("asked for %q", asked)
	}
	for code, want := range map[int]advice.Code{401: advice.CodeNotPermitted, 403: advice.CodeNotPermitted, 404: advice.CodeNoTarget, 400: advice.CodeNoTarget, 503: advice.CodeFailed} {
		status = code
		_, err := pages.Ask(t.Context(), "outliers", "web", "", "cpu")
		if advice.CodeOf(err) != want || strings.Contains(err.Error(), "secret") {
			t.Errorf("%d: %v", code, err)
		}
	}
	if _, err := pages.Ask(t.Context(), "secrets", "", "", "cpu"); advice.CodeOf(err) != advice.CodeNoTarget {
		t.Errorf("another command: %v", err)
	}
	if err := os.Chmod(token, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := pages.Ask(t.Context(), "outliers", "web", "", "cpu"); err == nil || strings.Contains(err.Error(), "503") {
		t.Errorf("a token that all may read: %v", err)
	}
}

// TestFleetDelete: without --yes the command lists what would go, and deletes nothing. A token without the right is told
// which one it needs.
func TestFleetDelete(t *testing.T) {
	t.Parallel()
	status := http.StatusOK
	var asked []string
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("Authorization"))
		w.WriteHeader(status)
		w.Write([]byte(`[{"target": "web", "build": "1f0c", "unit": "cpu/nanoseconds", "samples": 900, "instances": 2}]`))
	}))
	defer hub.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		status int
		args   string
		code   int
		says   string
		asks   string
	}{
		{200, "web", 2, "900 samples of 2 instances, would go", "GET /v1/builds?limit=500&target=web Bearer secret"},
		{200, "web 2e", 1, "has no build", "GET /v1/builds?limit=500&target=web Bearer secret"},
		{200, "web --yes", 0, "web@1f0c, cpu: 900 samples of 2 instances, is deleted.", "DELETE /v1/builds?target=web Bearer secret"},
		{200, "web 1f0c --yes", 0, "is deleted", "DELETE /v1/builds?build=1f0c&target=web Bearer secret"},
		{403, "web --yes", 1, "must begin with delete", "DELETE /v1/builds?target=web Bearer secret"},
		{404, "web 2e --yes", 1, "has no build", "DELETE /v1/builds?build=2e&target=web Bearer secret"},
	} {
		status, asked = c.status, nil
		var out bytes.Buffer
		args := append([]string{"fleet", "delete", "--hub", hub.URL, "--token-file", token}, strings.Fields(c.args)...)
		code := run(args, strings.NewReader(""), &out, &out)
		if (code == 0) != (c.code == 0) || c.code == 2 && code != 2 || !strings.Contains(out.String(), c.says) || strings.Join(asked, "; ") != c.asks {
			t.Errorf("%s: exit code %d, asked %q, says %s", c.args, code, asked, &out)
		}
	}
}

// TestBesideDaemon: of the pages of 'ccmapd ui' the user's hub answers what is the fleet's, and the daemon all else.
func TestBesideDaemon(t *testing.T) {
	t.Parallel()
	says := func(what string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(what)) })
	}
	h := besideDaemon(says("fleet"), says("daemon"))
	for path, want := range map[string]string{
		"/v1/fleet/builds": "fleet", "/v1/p/" + url.PathEscape("@hub/best:web") + "/flame": "fleet", "/v1/diff?a=live:web&b=@hub/best:web": "fleet",
		"/v1/diff?a=%40hub%2Fbest:web&b=live:web": "fleet", "/v1/targets": "daemon", "/v1/p/live:web/flame": "daemon", "/v1/diff?a=live:web&b=best:web": "daemon",
		"/v1/p/live:fleet/flame?q=@hub/": "daemon",
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Body.String() != want {
			t.Errorf("%s: %s answers", path, w.Body)
		}
	}
	if _, err := pagesOfUser(client.Hub{}).Ask(t.Context(), "builds", "", "", "cpu"); advice.CodeOf(err) != advice.CodeUsage {
		t.Errorf("without a hub: %v", err)
	}
}

// TestListsOfAHub: lists of a hub are whole, from one that sends pages and from one that knows none. A hub whose list does
// not end is not followed.
func TestListsOfAHub(t *testing.T) {
	t.Parallel()
	var all []fleet.Build
	for n := range 4321 {
		all = append(all, fleet.Build{ID: fmt.Sprintf("%032x", n), Target: fmt.Sprintf("web%d", n%7), Updated: time.Unix(int64(n), 0)})
	}
	asked := 0
	ask := func(answer func(after string, limit int) any) fleetHub {
		return fleetHub{get: func(_ context.Context, into any, query url.Values, _ string) error {
			asked++
			limit, err := strconv.Atoi(query.Get("limit"))
			if err != nil {
				return err
			}
			text, err := json.Marshal(answer(query.Get("after"), limit))
			return errors.Join(err, json.Unmarshal(text, into))
		}}
	}
	pages := func(after string, limit int) any {
		at := 0
		for at < len(all) && all[at].ID <= after {
			at++
		}
		p := fleet.Page[fleet.Build]{List: all[at:min(at+limit, len(all))]}
		if at+limit < len(all) {
			p.Next = all[at+limit-1].ID
		}
		return p
	}
	for name, hub := range map[string]fleetHub{"pages": ask(pages), "none": ask(func(string, int) any { return all })} {
		list, err := hub.builds(t.Context(), "")
		if err != nil || len(list) != len(all) || !slices.IsSortedFunc(list, fleet.Build.Compare) || list[0].Target != "web0" || !list[0].Updated.After(list[1].Updated) {
			t.Errorf("%s: %d builds, %v", name, len(list), err)
		}
		targets, err := hub.targets(t.Context())
		if err != nil || len(targets) != 7 || targets[6].Builds != len(all)/7 {
			t.Errorf("%s: targets %+v, %v", name, targets, err)
		}
	}
	for name, answer := range map[string]func(after string, limit int) any{
		"the same again": func(string, int) any { return fleet.Page[fleet.Build]{Next: "1"} },
		"backwards":      func(after string, _ int) any { return fleet.Page[fleet.Build]{Next: string(rune('z' - len(after)))} },
		"no end":         func(after string, _ int) any { return fleet.Page[fleet.Build]{Next: after + "0"} },
		"too much": func(after string, _ int) any {
			return fleet.Page[fleet.Build]{List: make([]fleet.Build, 20_000), Next: after + "0"}
		},
	} {
		asked = 0
		if list, err := ask(answer).builds(t.Context(), ""); err == nil || len(list) > 0 || asked > mostPages {
			t.Errorf("%s: %d builds after %d questions: %v", name, len(list), asked, err)
		}
	}
	if list, err := ask(func(string, int) any { return fleet.Page[fleet.Build]{} }).builds(t.Context(), "web"); err != nil || list == nil || len(list) > 0 {
		t.Errorf("no builds: %v, %v", list, err)
	}
}
