package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/view"
)

// liveLine redraws one line on a terminal with the state of a session. On
// anything else it prints nothing.
type liveLine struct {
	w      io.Writer
	status func() manager.Status
	last   manager.Status // drawn
	quit   chan struct{}
	done   sync.WaitGroup
}

// liveEvery is the time between two drawings: often enough to look alive, and
// rare enough to be read.
const liveEvery = 500 * time.Millisecond

func startLiveLine(w io.Writer, status func() manager.Status) *liveLine {
	l := &liveLine{w: terminal.Unguarded(w), status: status, quit: make(chan struct{})}
	if terminal.Width(w) > 0 {
		l.done.Go(l.run)
	}
	return l
}

// stop ends the line and removes it from the terminal.
func (l *liveLine) stop() {
	close(l.quit)
	l.done.Wait()
}

func (l *liveLine) run() {
	ticker := time.NewTicker(liveEvery)
	defer ticker.Stop()
	defer io.WriteString(l.w, terminal.ClearLine)
	for {
		select {
		case <-l.quit:
			return
		case <-ticker.C:
			io.WriteString(l.w, terminal.ClearLine+terminal.ShortenEnd(l.next(), terminal.Width(l.w)-1))
		}
	}
}

// next returns the line of the present state.
func (l *liveLine) next() string {
	s := l.status()
	line := formatStatus(l.last, s)
	l.last = s
	return line
}

// aboveLive returns a writer for lines that may be written while a live line is
// drawn on w.
func aboveLive(w io.Writer) io.Writer {
	if terminal.Width(w) > 0 {
		return terminal.Guarded(aboveLiveLine{terminal.Unguarded(w)})
	}
	return w
}

// aboveLiveLine is a terminal that has a live line: what is written to it takes
// the place of that, which is then drawn below. One Write writes whole lines.
type aboveLiveLine struct{ w io.Writer }

func (a aboveLiveLine) Write(p []byte) (int, error) {
	if _, err := io.WriteString(a.w, terminal.ClearLine); err != nil {
		return 0, err
	}
	return a.w.Write(p)
}

// formatStatus prints what has come of a session, with the rate since the last
// time.
func formatStatus(last, s manager.Status) string {
	rate := 0.0
	if passed := s.Elapsed - last.Elapsed; passed > 0 {
		rate = float64(s.Samples-last.Samples) / passed.Seconds()
	}
	parts := []string{
		s.Elapsed.Truncate(time.Second).String(),
		figure.Count(int64(rate+0.5)) + " samples/s",
	}
	parts = append(parts, formatProgress(s)...)
	parts = append(parts,
		"interval "+figure.Time(int64(s.Interval)),
		"repetitions "+formatRepetitions(s)+formatTuning(s),
		formatLoss(s.Loss),
		figure.Count(int64(s.Nodes))+" nodes",
		figure.Bytes(s.Bytes),
		figure.Plural(int64(s.Threads), "thread"),
	)
	return strings.Join(parts, "  ")
}

// formatProgress prints how settled the profile is, what has happened that does not
// happen to most, and how many calls were caught.
func formatProgress(s manager.Status) []string {
	var parts []string
	if b := s.Blind; b.Misleads() {
		parts = append(parts, fmt.Sprintf("MISLEADS: unknown %.0f%%, truncated %.0f%%", b.Unknown, b.Truncated))
	} else if s.Settled != (ccmap.Settled{}) {
		parts = append(parts, fmt.Sprintf("settled edges %.0f%%, contexts %.0f%%", s.Settled.Edges, s.Settled.Contexts))
	}
	if s.Drift {
		parts = append(parts, "drifts")
	}
	if s.Pruned.Times > 0 {
		parts = append(parts, "pruned "+figure.Plural(int64(s.Pruned.Times), "time"))
	}
	if s.Caught > 0 {
		parts = append(parts, "caught "+figure.Plural(int64(s.Caught), "call"))
	}
	return parts
}

// formatLoss prints how many samples were lost, and how much time.
func formatLoss(l ccmap.Loss) string {
	text := "lost " + figure.Count(int64(l.Samples()))
	if time := view.Unaccounted(l); time != "" {
		text += ", " + time
	}
	return text
}

// formatRepetitions prints the share of repetitions, "–" where none of the
// samples has a verdict.
func formatRepetitions(s manager.Status) string {
	if s.Known == 0 {
		return "–"
	}
	return figure.Percent(figure.Share(int64(s.Repeated), int64(s.Known)))
}

// formatTuning prints how long the tuner waits for its next step, by the verdicts
// that there have been: " (tuning in ~45s: 517 more verdicts)". It is "" if the tuner
// waits for none.
func formatTuning(s manager.Status) string {
	if s.MissingVerdicts == 0 {
		return ""
	}
	when := ""
	if s.Known > 0 {
		wait := time.Duration(float64(s.Elapsed) / float64(s.Known) * float64(s.MissingVerdicts))
		when = " in ~" + max(wait, time.Second).Round(time.Second).String()
	}
	return fmt.Sprintf(" (tuning%s: %s)", when, figure.Plural(int64(s.MissingVerdicts), "more verdict"))
}
