package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/view"
)

// goal is the value of --until: "95%", or "contexts:95%". Without a word it is
// of edges.
type goal struct{ manager.Goal }

// goalWords are the granularities of a goal.
var goalWords = []manager.Granularity{manager.Methods, manager.Edges, manager.Contexts}

func (g *goal) Type() string { return "goal" }

func (g *goal) String() string {
	if g.Percent == 0 {
		return ""
	}
	return fmt.Sprintf("%v:%v%%", g.Of, g.Percent)
}

func (g *goal) Set(s string) error {
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

// untilJSON is a goal in the JSON of a report.
type untilJSON struct {
	Of      string  `json:"of"`
	Percent float64 `json:"percent"`
	Reached bool    `json:"reached"`
}

// json returns nil where there is no goal.
func (g goal) json(reached bool) *untilJSON {
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
func (g goal) outOfReach(s manager.Status, snapshot func() *ccmap.Snapshot) string {
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
func (s *session) watchGoal(w io.Writer) (stop func()) {
	if s.flags.quiet || s.flags.until.Percent == 0 {
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
			if text := s.flags.until.outOfReach(s.manager.Status(), s.manager.Snapshot); text != "" {
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
