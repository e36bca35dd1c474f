package session

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/terminal/terminaltest"
	"github.com/ccmapd/ccmapd/manager"
)

func TestFormatStatus(t *testing.T) {
	t.Parallel()
	last := manager.Status{Elapsed: 10 * time.Second, Samples: 1000}
	now := manager.Status{
		Elapsed: 12 * time.Second, Samples: 4000, Known: 400, Repeated: 13, Interval: 2500 * time.Microsecond,
		Threads: 1, Nodes: 12345, Bytes: 1_234_567,
	}
	now.Loss.Queue = 7
	const want = "12s  1,500 samples/s  interval 2.5ms  repetitions 3.2%  lost 7  12,345 nodes  1.2 MB  1 thread"
	if got := formatStatus(last, now); got != want {
		t.Errorf("status %q\nwant   %q", got, want)
	}
	const empty = "0s  0 samples/s  interval 10ms  repetitions –  lost 0  0 nodes  0 kB  0 threads"
	if got := formatStatus(manager.Status{}, manager.Status{Interval: 10 * time.Millisecond}); got != empty {
		t.Errorf("status %q\nwant   %q", got, empty)
	}
	for _, test := range []struct {
		known         uint64
		have, missing int
		loss          ccmap.Loss
		want          string
	}{
		{0, 0, 657, ccmap.Loss{}, "  repetitions –  verdicts: 0 of 657  lost 0  "},
		{60, 60, 30, ccmap.Loss{}, "  repetitions 0.0%  verdicts: 60 of 90, 6 seconds more  lost 0  "},
		{28, 240, 420, ccmap.Loss{}, "  repetitions 0.0%  verdicts: 240 of 660, 3 minutes more  lost 0  "},
		{1000, 656, 1, ccmap.Loss{Clock: 1000, Unaccounted: 31}, "  repetitions 0.0%  verdicts: 656 of 657, 1 second more  lost 0, 3.1% unaccounted  "},
	} {
		s := manager.Status{Elapsed: 12 * time.Second, Known: test.known, Verdicts: test.have, NeededVerdicts: test.have + test.missing, Loss: test.loss}
		if got := formatStatus(manager.Status{}, s); !strings.Contains(got, test.want) {
			t.Errorf("status %q\nwant   …%q…", got, test.want)
		}
	}
	now.Settled = ccmap.Settled{Methods: 99, Edges: 93.2, Contexts: 88.1, Samples: 4000}
	now.Pruned.Times, now.Drift, now.Caught, now.Held = 2, true, 1204, "--max-overhead"
	const settled = "12s  1,500 samples/s  settled edges 93%, contexts 88%  drifts  pruned 2 times  caught 1,204 calls  interval 2.5ms held by --max-overhead  "
	if got := formatStatus(last, now); !strings.HasPrefix(got, settled) {
		t.Errorf("status %q\nwant   %q…", got, settled)
	}
}

func TestLiveLineClaimsNothing(t *testing.T) {
	t.Parallel()
	settled := ccmap.Settled{Methods: 99, Edges: 98, Contexts: 97}
	line := formatStatus(manager.Status{}, manager.Status{Settled: settled, Blind: ccmap.Blind{Unknown: 89.6}})
	if !strings.Contains(line, "MISLEADS: unknown 90%, truncated 0%") || strings.Contains(line, "settled") {
		t.Errorf("live line %q", line)
	}
}

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
