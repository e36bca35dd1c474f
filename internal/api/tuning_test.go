package api

import (
	"encoding/json"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestTuning: a row has the figures of its own minutes, and nothing where nothing was sampled. Events are those of
// the target that say why it is sampled so.
func TestTuning(t *testing.T) {
	t.Parallel()
	f := newFake()
	at := time.Unix(1_800_000_090, 0)
	for _, e := range []daemon.Event{{Kind: daemon.EventInterval, Target: "web", Text: "interval 20ms, was 10ms"}, {Kind: daemon.EventHot, Target: "web"}, {Kind: daemon.EventDrift, Target: "db"}} {
		e.At = at
		f.events <- e
	}
	s := newServer(t, f, Options{})
	ask := func(path string) (v tuningJSON) {
		t.Helper()
		w := get(s, master, path)
		if err := json.Unmarshal(w.Body.Bytes(), &v); w.Code != 200 || err != nil {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
		return v
	}
	values := func(column []*float64) (all []float64) {
		for _, v := range column {
			if v == nil {
				all = append(all, -1)
			} else {
				all = append(all, *v)
			}
		}
		return all
	}
	if n, err := strconv.Atoi(get(s, master, "/v1/p/live:web/top").Header().Get(askHeader)); err != nil || n < int(leastAsk.Seconds()) {
		t.Errorf("a page may ask again after %d s, %v", n, err)
	}
	v := ask("/v1/p/live:web/tuning")
	for name, want := range map[string][]float64{
		"samples_per_second": {10, 0, 10}, "lost_percent": {25, -1, 25}, "repeated_percent": {10, -1, 10}, "interval_ns": {1e7, -1, 1e7}, "cpu_cores": {0.5, 0, 0.5},
	} {
		if diff := cmp.Diff(want, values(v.Series[name])); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]markJSON{{at.Unix(), daemon.EventInterval, "interval 20ms, was 10ms"}}, v.Marks); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if got := values(ask("/v1/p/live:web/tuning?step=1h").Series["samples_per_second"]); len(got) != 1 || got[0] != 1200.0/180 {
		t.Errorf("in steps of an hour: %v", got)
	}
	if got := ask("/v1/p/live:web/tuning?since=1800000120"); len(got.T) != 1 {
		t.Errorf("since the second minute: %v", got.T)
	}
	for path, want := range map[string]int{
		"/v1/p/live:none/tuning": 404, "/v1/p/best:web/tuning": 400, "/v1/p/live:web/tuning?step=1s": 400, "/v1/p/live:web/tuning?step=x": 400, "/v1/p/live:web/tuning?since=now": 400, "/v1/p/live:web/tuning?x=1": 400,
	} {
		if w := get(s, master, path); w.Code != want {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	if w := get(s, stranger, "/v1/p/live:web/tuning"); w.Code == 200 {
		t.Errorf("a stranger: %d", w.Code)
	}
}
