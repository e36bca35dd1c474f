package daemon

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestPhases: a program that does something else for two periods has two phases, and a process that begins again with
// the first thing soon has the first phase's best profile.
func TestPhases(t *testing.T) {
	t.Parallel()
	c := filing(t.TempDir())
	c.Targets[0].Rotate = 10 * time.Minute
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		h.every = 50 * time.Millisecond
		pid := 10
		run := func(method string, length time.Duration) (kill func()) {
			t.Helper()
			p := web(pid)
			pid++
			p.method = method
			process := h.start(p)
			time.Sleep(length)
			synctest.Wait()
			return func() { h.kill(process) }
		}
		best := func() (method string, phases int) {
			t.Helper()
			for _, e := range d.Stored().List(store.Filter{}).Entries {
				switch e.Kind {
				case store.KindPhase:
					phases++
				case store.KindBest:
					m, err := d.Stored().Read(e)
					if err != nil {
						t.Fatal(err)
					}
					method = hottest(m.Snapshot())
				}
			}
			return method, phases
		}
		run("main.work", 31*time.Minute)()
		if method, phases := best(); method != "main.work" || phases != 0 {
			t.Errorf("after the first thing: %s, %d phases", method, phases)
		}
		run("main.other", 41*time.Minute)()
		if method, phases := best(); method != "main.other" || phases != 2 {
			t.Errorf("after the second thing: %s, %d phases", method, phases)
		}
		defer run("main.work", time.Minute)()
		if method, phases := best(); method != "main.work" || phases != 2 {
			t.Errorf("a minute after the first thing began again: %s, %d phases", method, phases)
		}
	})
}

// hottest returns the name of the method with the most samples.
func hottest(s *ccmap.Snapshot) (name string) {
	most := int64(0)
	for n := range s.Nodes() {
		method := n.Method
		if n.IsPosition() {
			method = s.Node(n.Parent).Method
		}
		if n.Self.Samples > most {
			most, name = n.Self.Samples, s.Names().At(method).Name
		}
	}
	return name
}
