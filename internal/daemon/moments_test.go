package daemon

import (
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestMomentsKept: with moments, the store has one of each sample that it has, whatever ends a period; without, none.
func TestMomentsKept(t *testing.T) {
	t.Parallel()
	for _, keep := range []time.Duration{0, time.Hour} {
		c := filing(t.TempDir())
		c.Store.Moments = keep
		inDaemon(t, c, func(t *testing.T, h *fakeHost, _ *Daemon) {
			first := h.start(web(10))
			time.Sleep(3 * time.Minute)
			h.kill(first)
			time.Sleep(time.Second)
			p := web(11)
			p.build = "build/2"
			h.start(p)
			time.Sleep(30 * time.Second)
		})
		_, all := filesIn(t, c.Store.Dir)
		r, err := store.NewReader(c.Store.Dir)
		if err != nil {
			t.Fatal(err)
		}
		// The fake samples have no times: they are of the boot of the machine.
		entries, err := r.Resolve(store.Reference{Kind: "span", Name: "web", At: "1970-01-02..2100-01-01"}, store.Filter{}, time.Now())
		if keep == 0 {
			if err == nil {
				t.Error("there are moments that nobody wants")
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		m, err := r.Sum(entries)
		if err != nil {
			t.Fatal(err)
		}
		s, want := m.Snapshot(), sumOf(all)
		moments := int64(0)
		for range s.Moments() {
			moments++
		}
		unknown, _ := s.Method(ccmap.UnknownID)
		if s.Total().Samples != want.Samples || moments != want.Samples || !unknown.Self().IsZero() {
			t.Errorf("%v of %d moments, %v of unknown contexts; the store has %v", s.Total(), moments, unknown.Self(), want)
		}
	}
}
