package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSameRequestsSameTruth(t *testing.T) {
	t.Parallel()
	for _, name := range modeNames() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Mode: name, Requests: 60, Workers: 3, Spin: time.Microsecond}
			first := mustRun(t, o)
			if first.Requests != o.Requests || len(first.Activations) == 0 {
				t.Errorf("truth of %d requests: %+v", o.Requests, first)
			}
			if diff := cmp.Diff(first, mustRun(t, o)); diff != "" {
				t.Errorf("two runs differ (-first +second):\n%s", diff)
			}
		})
	}
}

func mustRun(t *testing.T, o Options) Truth {
	t.Helper()
	truth, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return truth
}

func TestRunEndsWithContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	truth, err := Run(ctx, Options{})
	if err != nil || truth.Requests != 0 {
		t.Errorf("canceled run: %+v, %v", truth, err)
	}
}

func TestRunRejectsUnknownMode(t *testing.T) {
	t.Parallel()
	if _, err := Run(t.Context(), Options{Mode: "sleep"}); err == nil {
		t.Error("no error for an unknown mode")
	}
}

func TestFormula(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"1 + 2*x":            7,
		"-(x - 5)":           2,
		"8/2/x":              4. / 3,
		"((x))*(x + 1) - 4 ": 8,
	} {
		var calls tally
		f, err := parse(text, &calls)
		if err != nil {
			t.Errorf("parse(%q): %v", text, err)
			continue
		}
		if got := f.eval(3, &calls); math.Abs(got-want) > 1e-9 {
			t.Errorf("%q at x = 3 is %v, want %v", text, got, want)
		}
	}
}

func TestFormulaErrors(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "1 +", "(x", "x)", "y", "2x"} {
		if f, err := parse(text, new(tally)); err == nil {
			t.Errorf("parse(%q) = %v, want an error", text, f)
		}
	}
}

func TestQueens(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]float64{1: 1, 3: 0, 6: 4, 8: 92} {
		r, err := queenService{}.answer(request{Size: size}, new(tally))
		if err != nil || r.Value != want {
			t.Errorf("%d queens: %v ways, %v, want %v", size, r.Value, err, want)
		}
	}
}

func TestServerReportsBadRequests(t *testing.T) {
	t.Parallel()
	for _, q := range []request{
		{Service: "nothing"}, {Service: "eval", Text: "("}, {Service: "words"},
		{Service: "queens", Size: maxQueens + 1},
	} {
		if r := newServer(new(ledger)).handle(q); r.Error == "" {
			t.Errorf("no error in the answer to %+v", q)
		}
	}
}

func TestMainHoldsAndTellsTruth(t *testing.T) {
	t.Parallel()
	hold, release := io.Pipe()
	var stdout, stderr bytes.Buffer
	go func() {
		_, err := io.WriteString(release, "go\n")
		release.CloseWithError(errors.Join(err, io.EOF))
	}()
	if code := Main([]string{"-hold", "-requests", "12", "-truth"}, hold, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	ready, rest, _ := strings.Cut(stdout.String(), "\n")
	var truth Truth
	if err := json.Unmarshal([]byte(rest), &truth); err != nil || ready != "ready" || truth.Requests != 12 {
		t.Errorf("output %q: %+v, %v", &stdout, truth, err)
	}
}

// An attended workload ends with its standard input, as when its parent is killed.
func TestMainEndsWithItsInput(t *testing.T) {
	t.Parallel()
	if code := Main([]string{"-attended"}, strings.NewReader("goes on\n"), io.Discard, io.Discard); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestMainRejectsUnknownFlag(t *testing.T) {
	t.Parallel()
	if code := Main([]string{"-nonsense"}, nil, io.Discard, io.Discard); code != 2 {
		t.Errorf("exit code %d, want 2", code)
	}
}
