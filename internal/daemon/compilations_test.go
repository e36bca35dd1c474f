package daemon

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
	"github.com/ccmapd/ccmapd/internal/store"
)

// TestCompilationsAreRecorded: beside the session of a JVM, and of no other program, its compilers are watched, and
// records go to the store as of the target, build and owner of the process.
func TestCompilationsAreRecorded(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) { c.Feedback.Record = "p.*" })
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		var mu sync.Mutex
		var keys []store.Key
		watched := make(map[int]string)
		running := 0
		d.recorder.append = func(k store.Key, records ...compilation.Record) error {
			mu.Lock()
			defer mu.Unlock()
			if len(records) == 1 && records[0].Name == "p.m" {
				keys = append(keys, k)
			}
			return errors.New("a full disk ends no session")
		}
		d.recorder.watch = func(ctx context.Context, pid int, c *hotspot.Compilations) error {
			mu.Lock()
			watched[pid], running = c.Pattern, running+1
			mu.Unlock()
			c.Record([]compilation.Record{{Method: compilation.Method{Name: "p.m"}, Level: 4}})
			<-ctx.Done()
			mu.Lock()
			defer mu.Unlock()
			running--
			return ctx.Err()
		}
		jvm := h.start(jvmFor(10))
		h.start(web(11))
		time.Sleep(10 * time.Second)
		mu.Lock()
		if len(watched) != 1 || watched[10] != "p.*" || running != 1 {
			t.Errorf("watched %v, %d running", watched, running)
		}
		if len(keys) != 1 || keys[0].Target != "web" || keys[0].Owner != jvmFor(10).Owner {
			t.Errorf("records of %+v", keys)
		}
		mu.Unlock()
		h.kill(jvm)
		time.Sleep(10 * time.Second)
		mu.Lock()
		defer mu.Unlock()
		if running != 0 {
			t.Error("a JVM is watched that has ended")
		}
	})
}
