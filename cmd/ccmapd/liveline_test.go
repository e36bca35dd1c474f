package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/terminal/terminaltest"
	"github.com/ccmapd/ccmapd/manager"
)

func TestLiveLineIsDrawnAndRemoved(t *testing.T) {
	t.Parallel()
	const width = 40
	screen, tty := terminaltest.Open(t, width)
	asked := make(chan struct{}, 16)
	line := startLiveLine(tty, func() manager.Status {
		asked <- struct{}{}
		return manager.Status{Samples: 100, Interval: 10 * time.Millisecond}
	})
	<-asked
	line.Stop()
	tty.Close()
	lines := strings.Split(terminaltest.Read(screen), terminal.ClearLine)
	if len(lines) < 3 || !strings.Contains(lines[1], "samples/s") {
		t.Errorf("drawn: %q", lines)
	}
	if last := lines[len(lines)-1]; last != "" {
		t.Errorf("left on the terminal: %q", last)
	}
	for _, l := range lines {
		if n := utf8.RuneCountInString(l); n >= width {
			t.Errorf("a line of %d in %d columns: %q", n, width, l)
		}
	}
}

func TestLiveLineNeedsATerminal(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	startLiveLine(&out, func() manager.Status { panic("nobody looks") }).Stop()
	if out.Len() > 0 {
		t.Errorf("printed %q", out.String())
	}
}
