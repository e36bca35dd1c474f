package session

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
)

// startLiveLine draws the state of a session in one line, if w is a terminal.
func startLiveLine(w io.Writer, status func() manager.Status) *terminal.Live {
	var last manager.Status // drawn
	return terminal.StartLive(w, func() string {
		s := status()
		line := formatStatus(last, s)
		last = s
		return line
	})
}

// formatStatus prints the state of a session, with the rate since the last time.
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
	if s.Interval > 0 {
		parts = append(parts, "interval "+figure.Time(int64(s.Interval))+heldBy(s))
	}
	parts = append(parts,
		"repetitions "+formatRepetitions(s)+formatTuning(s),
		formatLoss(s),
		figure.Count(int64(s.Nodes))+" nodes",
		figure.Bytes(s.Bytes),
		figure.Plural(int64(s.Threads), "thread"),
	)
	return strings.Join(parts, "  ")
}

// heldBy names the budget that keeps the session from more samples, "" if none does.
func heldBy(s manager.Status) string {
	if s.Held == "" {
		return ""
	}
	return " held by " + s.Held
}

// formatProgress prints how settled the profile is, rare events, and how many calls were
// caught.
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
func formatLoss(s manager.Status) string {
	text := "lost " + figure.Count(int64(s.Loss.Samples()))
	if missing := view.Unaccounted(s.Loss, s.Sampled/time.Duration(max(s.Samples, 1))); missing != "" {
		text += ", " + missing
	}
	return text
}

// formatRepetitions prints the share of repetitions, "–" if no sample has a verdict.
func formatRepetitions(s manager.Status) string {
	if s.Known == 0 {
		return "–"
	}
	return figure.Percent(figure.Share(int64(s.Repeated), int64(s.Known)))
}

// formatTuning prints how far the tuner is with the verdicts for its next step, and how long
// the others take at the rate so far: "  verdicts: 240 of 660, 3 minutes more". It is "" if
// the tuner does not wait.
func formatTuning(s manager.Status) string {
	if s.NeededVerdicts == 0 {
		return ""
	}
	text := fmt.Sprintf("  verdicts: %s of %s", figure.Count(int64(s.Verdicts)), figure.Count(int64(s.NeededVerdicts)))
	if s.Known == 0 {
		return text
	}
	each := float64(s.Elapsed) / float64(s.Known)
	return text + ", " + roughly(time.Duration(each*float64(s.NeededVerdicts-s.Verdicts))) + " more"
}

// roughly prints a time in minutes, or in seconds if it is short.
func roughly(d time.Duration) string {
	if d >= 2*time.Minute {
		return figure.Plural(int64((d+time.Minute/2)/time.Minute), "minute")
	}
	return figure.Plural(int64(max(d, time.Second)+time.Second/2)/int64(time.Second), "second")
}
