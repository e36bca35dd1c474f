package gopgo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
)

// ErrDecisions is the error of a minimal profile with which the compiler decides something else.
var ErrDecisions = errors.New("the compiler decides something else with the minimal profile")

// Decisions builds packages with a profile, by the 'go' of PATH, and returns what the compiler decides in
// them because of it, in order: the calls that it inlines beyond the usual cost, and those that it
// devirtualizes. Nothing is installed. It takes as long as such a build: all that the packages import is
// compiled anew with each profile, unless the build cache has it.
func Decisions(ctx context.Context, packages, profile string) ([]string, error) {
	// pgodebug 1 and 2 do not tell devirtualized calls.
	cmd := exec.CommandContext(ctx, "go", "build", "-o", "/dev/null", "-pgo="+profile, "-gcflags="+packages+"=-d=pgodebug=3", "--", packages)
	var last tail
	output, err := cmd.StderrPipe()
	if err != nil {
		return nil, fmt.Errorf("build %s: %w", packages, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("build %s: %w", packages, err)
	}
	decisions, readErr := readDecisions(io.TeeReader(output, &last))
	if err := cmd.Wait(); err != nil {
		return nil, fmt.Errorf("build %s: %w: %s", packages, err, last.line())
	}
	return decisions, readErr
}

// readDecisions reads what the compiler prints with -d=pgodebug=3 (Go 1.22 to 1.27).
func readDecisions(r io.Reader) ([]string, error) {
	var decisions []string
	for line, err := range lines(r) {
		if err != nil {
			return nil, fmt.Errorf("read decisions: %w", err)
		}
		if d := decisionOf(line); d != "" {
			decisions = append(decisions, d)
		}
	}
	slices.Sort(decisions)
	return decisions, nil
}

// decisionOf returns the decision in a line, "" if there is none.
func decisionOf(line []byte) string {
	const inlines = "hot-budget check allows inlining for call "
	if rest, ok := bytes.CutPrefix(line, []byte(inlines)); ok {
		return "inlines " + strings.TrimSpace(string(rest))
	}
	if !bytes.HasPrefix(line, []byte("{")) {
		return ""
	}
	var call struct{ Pos, Caller, Devirtualized string }
	if json.Unmarshal(line, &call) != nil || call.Devirtualized == "" {
		return ""
	}
	return fmt.Sprintf("devirtualizes %s at %s in function %s", call.Devirtualized, call.Pos, call.Caller)
}

// tail keeps the end of what is written to it.
type tail struct{ end []byte }

func (t *tail) Write(p []byte) (int, error) {
	const most = 4 << 10
	t.end = append(t.end, p[max(0, len(p)-most):]...)
	t.end = t.end[max(0, len(t.end)-most):]
	return len(p), nil
}

// line returns the last line.
func (t *tail) line() string {
	text := strings.TrimSpace(string(t.end))
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// SameDecisions returns an error that wraps [ErrDecisions] and names the first difference, if there is one.
func SameDecisions(whole, minimal []string) error {
	for _, d := range whole {
		if _, same := slices.BinarySearch(minimal, d); !same {
			return fmt.Errorf("%w: it no longer %s", ErrDecisions, d)
		}
	}
	for _, d := range minimal {
		if _, same := slices.BinarySearch(whole, d); !same {
			return fmt.Errorf("%w: it now %s", ErrDecisions, d)
		}
	}
	return nil
}
