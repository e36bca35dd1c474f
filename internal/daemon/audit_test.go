package daemon

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/internal/daemon/config"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// TestAudit: the log says which processes are sampled, by what, how they end and with how many samples. No byte of
// a program's name is in it as it came.
func TestAudit(t *testing.T) {
	t.Parallel()
	const hostile = "/srv/w\x1b[2J\nlevel=ERROR msg=forged \xff\u202e"
	var log strings.Builder
	c := webConfig(func(c *config.Config) { c.Targets[0].Match.Exe = "/srv/*" })
	inLoggingDaemon(t, c, slog.New(slog.NewTextHandler(&log, nil)), func(t *testing.T, h *fakeHost, d *Daemon) {
		p := web(10)
		p.Executable, p.UID = hostile, 1000
		first := h.start(p)
		time.Sleep(2 * time.Second)
		h.kill(first)
		synctest.Wait()
		samples := mustTarget(t, d, "web").Counters.Samples // of the ended process
		second := h.start(web(11))
		time.Sleep(2 * time.Second)
		h.fail(second, fmt.Errorf("read ring: %s", hostile))
		synctest.Wait()
		third := h.start(web(12))
		time.Sleep(2 * time.Second)
		if err := d.Pause("web"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		h.kill(third)
		text := log.String()
		for _, want := range []string{
			`msg="sampling begins" target=web pid=10 uid=1000 executable="/srv/w\x1b[2J\nlevel=ERROR msg=forged \xff\u202e" engine=fake`,
			fmt.Sprintf(`engine=fake samples=%d reason="target exited with code 0"`, samples),
			`msg="sampling begins" target=web pid=11 uid=0 executable=/srv/web engine=fake`,
			`reason="read ring: /srv/w\x1b[2J\nlevel`,
			`target=web pid=12 uid=0 executable=/srv/web engine=fake samples=`,
			`reason=paused`,
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the log lacks %s", want)
			}
		}
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "time=") || strings.ContainsAny(line, "\x1b\u202e") || !utf8.ValidString(line) {
				t.Errorf("raw: %q", line)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
	})
}

// TestAuditIsBounded: processes that a user starts again and again fill no disk, and hide no process of another user.
func TestAuditIsBounded(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := webConfig(func(c *config.Config) { c.Targets[0].Max = 1000 })
	inLoggingDaemon(t, c, slog.New(slog.NewTextHandler(&log, nil)), func(t *testing.T, h *fakeHost, d *Daemon) {
		d.audit.Info("processes of 1000", "the last line of 1000")
		for range auditBurst {
			d.audit.Info("processes of 1000", "flood")
		}
		for pid, owner := range map[int]int{10: 1000, 11: 1001} {
			p := web(pid)
			p.UID = owner
			h.start(p)
		}
		time.Sleep(100 * time.Millisecond)
		d.discovery.lookAgain(0)
		synctest.Wait()
		if text := log.String(); strings.Count(text, "msg=flood") != auditBurst-1 || !strings.Contains(text, "pid=11 uid=1001") {
			t.Errorf("%d lines of %s", strings.Count(text, "\n"), text[max(0, len(text)-500):])
		}
	})
	if !strings.Contains(log.String(), `msg="lines were left out: too many" of="processes of 1000" lines=`) {
		t.Error("not told how many lines are missing")
	}
}

// TestDetails: what engines and managers say of single sessions goes to a log of its own.
func TestDetails(t *testing.T) {
	t.Parallel()
	var log, details strings.Builder
	synctest.Test(t, func(t *testing.T) {
		d, err := newDaemon(Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)), Details: slog.New(slog.NewTextHandler(&details, nil)),
		}, newFakeHost())
		if err != nil {
			t.Fatal(err)
		}
		f := d.newTarget(config.Target{Name: "billing", Match: config.Match{URL: "http://127.0.0.1:1"}}).newFollower(process.Facts{})
		f.putOff(fmt.Errorf("ask: %w", sampler.ErrNoProcess), 0)
		if log.Len() > 0 || !strings.Contains(details.String(), "target=billing") {
			t.Errorf("log %q, details %q", &log, &details)
		}
	})
}
