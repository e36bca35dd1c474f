package api

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestPeriods: a peer is told of the stored profiles that it may read, the latest first, and of no file. Targets that are
// hidden from it do not exist.
func TestPeriods(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	begin := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	for hour, o := range []process.Owner{ownedBy(1000)[0], process.Unowned, ownedBy(1000)[0]} {
		from := begin.Add(time.Duration(hour) * time.Hour)
		if _, err := s.File(store.Key{Target: "web", Build: "b1", Owner: o}, from, from.Add(time.Hour), profiletest.Thicket(1).Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	f := newFake()
	server := newServer(t, f, Options{Open: true})
	ask := func(who peer, path string) (hours []int) {
		t.Helper()
		w := get(server, who, path)
		var v periodsJSON
		if err := json.Unmarshal(w.Body.Bytes(), &v); w.Code != http.StatusOK || err != nil || strings.Contains(w.Body.String(), `"file"`) {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		for _, e := range v.Entries {
			if e.Kind == store.LevelPeriod.String() {
				hours = append(hours, e.From.Hour())
			}
		}
		return hours
	}
	if got := ask(master, "/v1/targets/web/periods"); len(got) != 0 {
		t.Errorf("without a store there are %v", got)
	}
	f.stored = s.Reader()
	for name, c := range map[string]struct {
		who  peer
		path string
		want []int
	}{
		"a master": {master, "/v1/targets/web/periods", []int{12, 11, 10}}, "the owner": {userOf(1000), "/v1/targets/web/periods?event=cpu", []int{12, 10}},
		"another event": {master, "/v1/targets/web/periods?event=wait", nil}, "another target": {master, "/v1/targets/db/periods", nil},
	} {
		if diff := cmp.Diff(c.want, ask(c.who, c.path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	for path, who := range map[string]peer{"/v1/targets/none/periods": master, "/v1/targets/web/periods": userOf(1001)} {
		if w := get(server, who, path); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(server, master, "/v1/targets/web/periods?x=1"); w.Code != http.StatusBadRequest {
		t.Errorf("an unknown parameter: %d %s", w.Code, w.Body)
	}
	first := get(server, master, "/v1/targets/web/periods")
	if tag := first.Header().Get("ETag"); tag == "" || !slices.Equal(first.Body.Bytes(), get(server, master, "/v1/targets/web/periods").Body.Bytes()) {
		t.Errorf("two answers differ, or have no tag %q", tag)
	}
}
