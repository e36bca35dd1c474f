package api

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/moments"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestHeat: a time of a target has its heat map, its moments and its flame graph, for those who may see the target.
func TestHeat(t *testing.T) {
	t.Parallel()
	s, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	at := time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)
	var all []ccmap.Moment
	m := ccmap.New(ccmap.Options{Moments: func(m ccmap.Moment) { all = append(all, m) }})
	main, a := m.Names().Intern(ccmap.Method{Name: "main"}), m.Names().Intern(ccmap.Method{Name: "a"})
	for i := range 120 {
		frames := []ccmap.Frame{{Method: main, Offset: 1}}
		if i < 30 {
			frames = slices.Insert(frames, 0, ccmap.Frame{Method: a, Offset: 2})
		}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1 << 24, Time: at.Add(time.Duration(i) * time.Second).UnixNano(), Fresh: ccmap.FreshUnknown})
	}
	k := store.Key{Target: "kept", Build: "b1", Owner: ownedBy(1000)[0]}
	if _, err := s.File(k, at, at.Add(time.Hour), m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	name, err := s.BeginMoments(k, at)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := moments.Write(&file, slices.Values(all)); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendMoments(name, file.Bytes()); err != nil {
		t.Fatal(err)
	}
	f := newFake()
	f.stored = s.Reader()
	server := newServer(t, f, Options{Open: true})
	const span = "/v1/p/span:kept@2026-11-20T10:00:00Z..2026-11-20T10:01:30Z/"
	w := get(server, userOf(1000), span+"heat?method=a")
	var heat struct {
		From    time.Time `json:"from"`
		Column  int64     `json:"column_ns"`
		Samples int       `json:"samples"`
		Values  []int64   `json:"values"`
		Focus   []int64   `json:"focus_values"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &heat); w.Code != http.StatusOK || err != nil {
		t.Fatal(w.Code, err, w.Body)
	}
	sum := func(of []int64) (n int64) {
		for _, v := range of {
			n += v
		}
		return n
	}
	if heat.Samples != 90 || sum(heat.Values) != 90<<24 || sum(heat.Focus) != 30<<24 || heat.Column != 1e9 || !heat.From.Equal(at) {
		t.Errorf("%d samples from %v, %d, %d of a, in columns of %d ns", heat.Samples, heat.From, sum(heat.Values), sum(heat.Focus), heat.Column)
	}
	w, count := get(server, userOf(1000), span+"moments"), 0
	if _, err := moments.Read(w.Body, func(ccmap.Moment) bool { count++; return true }); w.Code != http.StatusOK || err != nil || count != 90 {
		t.Errorf("%d: %d moments, %v", w.Code, count, err)
	}
	if got := mapIn(t, get(server, userOf(1000), span+"map")).Total().Samples; got != 90 {
		t.Errorf("the profile of the time has %d samples", got)
	}
	for _, view := range []string{"heat", "moments", "map", "flame"} {
		if w := get(server, userOf(1001), span+view); w.Code != http.StatusNotFound {
			t.Errorf("another user gets %s: %d %s", view, w.Code, w.Body)
		}
	}
	for _, wrong := range []string{"span:kept@2026-11-20T10:00..2026-11-20T09:00/heat", "span:kept@noon/heat", "build:kept/heat", "build:kept/moments", "span:kept/moments?x=1"} {
		if w := get(server, userOf(1000), "/v1/p/"+wrong); w.Code/100 != 4 {
			t.Errorf("%s: %d", wrong, w.Code)
		}
	}
}
