package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// readByPprof gives go tool pprof's view of a window's export: whether the function with
// the most time is the same in the peer's profile, or its place there.
func readByPprof(ctx context.Context, w window) (string, error) {
	if w.peer == "" {
		ours, err := topFunctions(ctx, w.pprof, `^\[`)
		if len(ours) == 0 {
			return "lists nothing", err
		}
		return "works", err
	}
	ours, err1 := topFunctions(ctx, w.pprof, foreign.String())
	theirs, err2 := topFunctions(ctx, w.peer, foreign.String())
	if err := errors.Join(err1, err2); err != nil || len(ours) == 0 {
		return "lists nothing", err
	}
	switch i := slices.Index(theirs, ours[0]); {
	case i == 0:
		return "same top", nil
	case i > 0:
		return fmt.Sprintf("its top is number %d of runtime/pprof's", i+1), nil
	}
	return "another top", nil
}

// topFunctions returns the functions with the most time of their own. Functions that
// hidden matches count for their callers.
func topFunctions(ctx context.Context, file, hidden string) ([]string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", "-nodecount=10", "-hide="+hidden, file)
	cmd.Env = append(os.Environ(), "PPROF_BINARY_PATH="+filepath.Dir(file))
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof %s: %w", file, err)
	}
	_, list, found := strings.Cut(string(out), "cum%\n")
	if !found {
		return nil, fmt.Errorf("go tool pprof %s prints no table:\n%s", file, out)
	}
	return namesOf(list), nil
}

// namesOf returns the functions of the rows that go tool pprof -top prints.
func namesOf(list string) []string {
	var names []string
	for line := range strings.Lines(list) {
		if fields := strings.Fields(line); len(fields) >= 6 {
			names = append(names, strings.TrimSuffix(strings.Join(fields[5:], " "), " (inline)"))
		}
	}
	return names
}

// readForPGO gives the number of edges that the compiler's reader finds in a window's
// export, and the weight that it has in common with the peer's.
func readForPGO(ctx context.Context, w window) (string, error) {
	if w.pgo == "" {
		return "", nil
	}
	ours, err := pgoEdges(ctx, w.pgo)
	if err != nil {
		return "", err
	}
	if w.peer == "" {
		return strconv.Itoa(len(ours)), nil
	}
	theirs, err := pgoEdges(ctx, w.peer)
	return edgesInCommon(ours, theirs), err
}

// edgesInCommon gives the numbers of edges in two profiles, and their common weight.
func edgesInCommon(ours, theirs map[string]float64) string {
	return fmt.Sprintf("%d of %d; %.0f %% of the weight", len(ours), len(theirs), 100*inCommon(ours, theirs))
}

// pgoEdges returns the edges that go build -pgo takes from a profile, with their parts of
// the weight.
func pgoEdges(ctx context.Context, file string) (map[string]float64, error) {
	read := file + ".preprofile"
	if err := campaign.Command(exec.CommandContext(ctx, "go", "tool", "preprofile", "-i", file, "-o", read)); err != nil {
		return nil, err
	}
	text, err := os.ReadFile(read)
	if err != nil {
		return nil, err
	}
	edges, err := parseEdges(text)
	if err != nil {
		return nil, fmt.Errorf("read edges of %s: %w", file, err)
	}
	return edges, nil
}

// parseEdges reads the output of go tool preprofile: the format's name, then three lines
// an edge, the last with the line of the call in the caller and the weight.
func parseEdges(text []byte) (map[string]float64, error) {
	edges := make(map[string]float64)
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Scan()
	for lines.Scan() {
		caller := lines.Text()
		lines.Scan()
		callee := lines.Text()
		lines.Scan()
		line, weight, _ := strings.Cut(lines.Text(), " ")
		n, err := strconv.ParseFloat(weight, 64)
		if err != nil {
			return nil, err
		}
		edges[caller+" "+line+" "+callee] += n
	}
	return normalized(edges), lines.Err()
}

// normalized divides values, in place, by their sum.
func normalized(values map[string]float64) map[string]float64 {
	total := 0.0
	for _, v := range values {
		total += v
	}
	for name := range values {
		values[name] /= total
	}
	return values
}

// inCommon is the sum of the smaller parts.
func inCommon(a, b map[string]float64) float64 {
	var sum float64
	for name, part := range a {
		sum += min(part, b[name])
	}
	return sum
}
