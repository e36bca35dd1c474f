package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/sampler/pprofhttp"
)

// TestNamesOfProcess: a process whose own profiles bring too many names gets a new map.
func TestNamesOfProcess(t *testing.T) {
	t.Parallel()
	inDaemon(t, webConfig(), func(t *testing.T, h *fakeHost, d *Daemon) {
		first := web(7)
		first.err = fmt.Errorf("profile http://127.0.0.1:1: %w: 16 MiB", pprofhttp.ErrNames)
		p := h.start(first)
		awaitMethod(t, d, "main.work")
		later := web(7)
		later.method = "main.later"
		h.exec(p, later)
		got := awaitMethod(t, d, "main.later")
		if got["main.work"] > 0 {
			t.Errorf("the map goes on: %v", got)
		}
	})
}

// awaitMethod waits until the target web has samples of a method.
func awaitMethod(t *testing.T, d *Daemon, method string) map[string]int64 {
	t.Helper()
	for range 900 {
		if s, err := d.Snapshot(t.Context(), "web", 0, true); err == nil {
			found := make(map[string]int64)
			for m := range s.Methods() {
				found[m.Method().Name] = m.Total().Samples
			}
			if found[method] > 0 {
				return found
			}
		}
		time.Sleep(time.Second)
	}
	t.Fatalf("%s is awaited in vain: %+v", method, mustTarget(t, d, "web"))
	return nil
}
