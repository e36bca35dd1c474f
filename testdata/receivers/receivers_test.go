package receivers

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestTruthOfADeck: whole decks have exactly the shares that the package states.
func TestTruthOfADeck(t *testing.T) {
	t.Parallel()
	const workers, turns = 3, 2 * deckSize
	got := Run(t.Context(), Options{Workers: workers, Turns: turns})
	want := map[string][]float64{ // percent of the calls, and of the rounds
		"monomorphic": {100, 100},
		"bimorphic":   {75, 75, 25, 25},
		"promoted":    {60, 60, 40, 40},
		"generic":     {70, 70, 30, 30},
		"closure":     {50, 26.3, 30, 31.6, 20, 42.1},
		"deliver":     {40, 36.4, 30, 27.3, 20, 18.2, 10, 18.2},
		"relayed":     {40, 36.4, 30, 27.3, 20, 18.2, 10, 18.2},
		"forwarded":   {40, 36.4, 30, 27.3, 20, 18.2, 10, 18.2},
	}
	shares := make(map[string][]float64)
	for name, s := range got.Sites {
		if s.Calls != workers*turns {
			t.Errorf("%s made %d calls, want one a turn", name, s.Calls)
		}
		for _, to := range s.Targets {
			shares[strings.TrimPrefix(name, prefix)] = append(shares[strings.TrimPrefix(name, prefix)],
				percent(to.Calls, s.Calls), percent(to.Rounds, s.Rounds))
		}
	}
	if diff := cmp.Diff(want, shares); diff != "" {
		t.Errorf("shares (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(got, Run(t.Context(), Options{Workers: workers, Turns: turns})); diff != "" {
		t.Errorf("two runs differ (-first +second):\n%s", diff)
	}
}

// percent is rounded to a tenth.
func percent(part, whole int64) float64 { return math.Round(1000*float64(part)/float64(whole)) / 10 }

// TestCallersOfMessages: each depth has a caller for each message, and no other
// target has one.
func TestCallersOfMessages(t *testing.T) {
	t.Parallel()
	for name, s := range Run(t.Context(), Options{Workers: 1, Turns: 1}).Sites {
		callers := make(map[string]bool)
		for _, to := range s.Targets {
			callers[to.Caller] = true
			if (to.Depth > 0) != (to.Caller != "") {
				t.Errorf("%s: %+v", name, to)
			}
		}
		if depth := s.Targets[0].Depth; depth > 0 && len(callers) != 4 || depth == 0 && len(callers) != 1 {
			t.Errorf("%s has callers %v, depth %d", name, callers, depth)
		}
	}
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, s := range Run(ctx, Options{}).Sites {
		if s.Calls != 0 {
			t.Errorf("canceled run: %s made %d calls", name, s.Calls)
		}
	}
}

func TestMainTellsTruth(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := Main([]string{"-turns", "5", "-n", "2"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	ready, rest, _ := strings.Cut(stdout.String(), "\n")
	var truth Truth
	if err := json.Unmarshal([]byte(rest), &truth); err != nil || ready != "ready" {
		t.Fatalf("output %q: %v", &stdout, err)
	}
	if got := truth.Sites[prefix+"generic"].Calls; got != 10 {
		t.Errorf("%d calls of 2 workers with 5 turns each", got)
	}
}

func TestMainRejectsUnknownFlag(t *testing.T) {
	t.Parallel()
	if code := Main([]string{"-nonsense"}, io.Discard, io.Discard); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}
