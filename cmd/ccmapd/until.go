package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/manager"
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
