package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// TestOperate: each command says what has become of its target, or what to do.
func TestOperate(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeDaemon{targets: []daemon.TargetStatus{{Name: "web", State: "sampling", Processes: []daemon.ProcessStatus{}}}})
	for _, test := range []struct {
		args, want string
		code       int
	}{
		{"pause @web", "@web is paused: 'ccmapd resume @web' samples it again.\n", exitOK},
		{"resume web", "web is sampled again.\n", exitOK},
		{"rotate @web", "@web begins a new period.\n", exitOK},
		{"reload", "The configuration is in force.\n", exitOK},
		{"pause @none", "there is no target \"none\"\n  'ccmapd targets' lists them.", exitNoTarget},
		{"detach @none", "there is no target \"none\"", exitNoTarget},
		{"pause @", "pause wants the name of a target", exitUsage},
		{"pause", "pause wants one target, and got 0 arguments", exitUsage},
		{"reload web", "reload wants no arguments", exitUsage},
		{"--version", "ccmapd ", exitOK},
	} {
		got := ccmapdAt(t, socket, strings.Fields(test.args)...)
		if got.code != test.code || !strings.Contains(got.stdout+got.stderr, test.want) {
			t.Errorf("ccmapd %s: exit code %d, %s%s", test.args, got.code, got.stdout, got.stderr)
		}
	}
	if got := ccmapdAt(t, serveFake(t, &fakeDaemon{}), "targets"); got.code != exitOK || !strings.HasPrefix(got.stdout, "No targets. ") {
		t.Errorf("no targets: %+v", got)
	}
	none := filepath.Join(t.TempDir(), "none")
	if got := ccmapdAt(t, none, "reload"); got.code != exitFailed || !strings.Contains(got.stderr, "no daemon answers") || !strings.Contains(got.stderr, "ccmapd serve") {
		t.Errorf("without a daemon: %+v", got)
	}
}
