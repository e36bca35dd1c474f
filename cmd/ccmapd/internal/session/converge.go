package session

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/figure"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/manager"
)

// reportSettling says what is wrong with how the profile has settled.
func (s *Session) reportSettling(w io.Writer, r manager.Report) {
	switch until := s.config.Until; {
	case until.Percent == 0 || r.Reached:
	case r.Snapshot.Blind().Misleads():
		fmt.Fprintf(w, "%s were to settle to %v %%, and could not: too much of the profile is unknown. The warning above says how to mend it.\n",
			capital(until.Of.String()), until.Percent)
	default:
		fmt.Fprintf(w, "%s were to settle to %v %%, and came to %.1f %%%s.\n", capital(until.Of.String()), until.Percent,
			until.Of.Settled(r.Snapshot.Meta().Settled), moreSamples(until, r.Snapshot.Meta().Settled))
	}
	if _, windowed := r.Snapshot.Recent(); r.Drift && windowed && r.Snapshot.Meta().Unit != ccmap.Instructions {
		fmt.Fprintln(w, "In the end the program did something else than before: see 'ccmapd top --recent'.")
	}
}

// moreSamples estimates how many samples would have reached a goal, "" if that is unknown.
// The percentage still missing to 100 falls with the square root of the samples.
func moreSamples(g manager.Goal, s ccmap.Settled) string {
	missing, allowed := 100-g.Of.Settled(s), 100-g.Percent
	if missing <= allowed || missing >= 100 {
		return ""
	}
	samples := float64(s.Samples) * (missing / allowed) * (missing / allowed)
	return fmt.Sprintf(": that takes some %s samples", figure.Count(roundTwoDigits(samples)))
}

// roundTwoDigits rounds a positive estimate to two digits.
func roundTwoDigits(x float64) int64 {
	unit := math.Pow(10, math.Max(0, math.Floor(math.Log10(x))-1))
	return int64(math.Round(x/unit) * unit)
}

// reportPruning says why contexts are missing, and which file has the most of them.
func reportPruning(w io.Writer, p *view.Profile, files []string) {
	if !p.IsPruned() {
		return
	}
	fmt.Fprintln(w, "\nContexts were pruned to --max-memory, and are lower bounds: a larger one keeps more.")
	if !slices.ContainsFunc(files, func(f string) bool { return formatOf(f).HasPrunedTotals() }) {
		fmt.Fprintln(w, "Only XML and JSON keep the exact totals of methods and edges: -o FILE.xml.zst.")
	}
}

// untilJSON is a goal in the JSON of a report.
type untilJSON struct {
	Of      string  `json:"of"`
	Percent float64 `json:"percent"`
	Reached bool    `json:"reached"`
}

// newUntilJSON returns nil if there is no goal.
func newUntilJSON(g manager.Goal, reached bool) *untilJSON {
	if g.Percent == 0 {
		return nil
	}
	return &untilJSON{g.Of.String(), g.Percent, reached}
}

// leastMisleading is the least number of samples that make a profile mislead: as many as
// reach a goal.
const leastMisleading = 1000

// outOfReach says that a goal is not reached as long as so much of the profile is unknown,
// why that is so, and how to mend it: "" where it can be reached.
func outOfReach(g manager.Goal, s manager.Status, snapshot func() *ccmap.Snapshot) string {
	if s.Samples < leastMisleading || !s.Blind.Misleads() {
		return ""
	}
	caution := view.New("", snapshot()).TakeCaution()
	if caution == "" {
		return ""
	}
	return fmt.Sprintf("%s\n%s cannot settle to %v %% as long as so much of the profile is unknown. Sampling goes on.\n", caution, capital(g.Of.String()), g.Percent)
}

// watchGoal says once, while a session samples, that its goal is out of reach. It ends
// with stop.
func (s *Session) watchGoal(w io.Writer) (stop func()) {
	if s.config.Quiet || s.config.Until.Percent == 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() {
		ticker := time.NewTicker(terminal.LiveEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if text := outOfReach(s.config.Until, s.Manager.Status(), s.Manager.Snapshot); text != "" {
				io.WriteString(w, text)
				return
			}
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// Goal is the value of --until: "95%", or "contexts:95%". Without a word it is
// of edges.
type Goal struct{ manager.Goal }

// goalWords are the granularities of a goal.
var goalWords = []manager.Granularity{manager.Methods, manager.Edges, manager.Contexts}

func (g *Goal) Type() string { return "goal" }

func (g *Goal) String() string {
	if g.Percent == 0 {
		return ""
	}
	return fmt.Sprintf("%v:%v%%", g.Of, g.Percent)
}

func (g *Goal) Set(s string) error {
	word, number, found := strings.Cut(s, ":")
	if !found {
		word, number = manager.Edges.String(), s
	}
	of, err := granularity(word)
	if err != nil {
		return err
	}
	percent, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(number, "%")), 64)
	if err != nil || !(percent > 0 && percent < 100) {
		return fmt.Errorf("%q is not over 0 and under 100 percent: write 95%% or contexts:95%%", number)
	}
	g.Goal = manager.Goal{Of: of, Percent: percent}
	return nil
}

func granularity(word string) (manager.Granularity, error) {
	names := make([]string, len(goalWords))
	for i, g := range goalWords {
		if names[i] = g.String(); names[i] == word {
			return g, nil
		}
	}
	return 0, fmt.Errorf("%q cannot settle: it must be %s, as in contexts:95%%", word, terminal.OrList(names))
}
