package daemon

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/manager"
)

// TestHotEventsHaveData: what the configuration calls hot raises an event with data, of the owner of the process.
func TestHotEventsHaveData(t *testing.T) {
	t.Parallel()
	c := webConfig(func(c *config.Config) {
		c.Targets[0].Hot = config.Hot{Method: manager.Threshold{Percent: 50, Window: time.Minute}, Paths: "main.work = 2s"}
	})
	inDaemon(t, c, func(t *testing.T, h *fakeHost, d *Daemon) {
		p := web(10)
		p.Owner = process.Owner{UID: 70}
		h.start(p)
		time.Sleep(10 * time.Second)
		events, cancel := d.Events(0)
		defer cancel()
		got := make(map[string]Event)
		for len(events) > 0 {
			if e := <-events; e.Kind == EventHot {
				var hot recording.Hot
				if err := json.Unmarshal(e.Data, &hot); err != nil {
					t.Fatalf("%s: %v", e.Data, err)
				}
				got[hot.Kind+" "+hot.Method.Method+" "+hot.Path] = e
			}
		}
		for what, text := range map[string]string{
			"method main.work ":        "main.work has 100.0% of the recent CPU time, over 50%/1m",
			"path main.work main.work": "main.work has reached 2",
		} {
			if e := got[what]; !strings.HasPrefix(e.Text, text) || e.Owner.UID != 70 || e.Target != "web" || e.PID != 10 {
				t.Errorf("%s: %+v, want %s…", what, e, text)
			}
		}
		if len(got) != 2 {
			t.Errorf("%d events: %v", len(got), got)
		}
	})
}

// TestHotEventsAreBounded: a minute has so many events of a session, and then one that counts the others.
func TestHotEventsAreBounded(t *testing.T) {
	t.Parallel()
	var l heatLimit
	now := time.Now()
	admitted, told := 0, 0
	for range 10 * mostHeat {
		if now = now.Add(2 * time.Second); l.admit(now) {
			admitted++
		}
		told += l.leftOut(now)
	}
	if admitted != 10*mostHeat {
		t.Errorf("%d events of one in two seconds, of %d", admitted, 10*mostHeat)
	}
	for range 3 * mostHeat {
		if l.admit(now) {
			admitted++
		}
	}
	if told += l.leftOut(now); told != 0 {
		t.Errorf("%d were left out before the minute was over", told)
	}
	now = now.Add(heatEvery)
	if told += l.leftOut(now); admitted > 11*mostHeat || admitted+told != 13*mostHeat || l.leftOut(now) != 0 {
		t.Errorf("%d events, and %d that were left out", admitted, told)
	}
}
