package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/google/pprof/profile"
)

// witnessRate is that of the third witness, in Hz: no multiple of the other two, so
// that no program is in step with all of them.
const witnessRate = "173"

// callWitness watches a program once more, with perf record beside the two others, and
// notes which of them perf agrees with. Perf sees functions as they are in the
// executable, so it is functions without those inlined that are compared, by their own time.
func (f *field) callWitness(ctx context.Context, r *row, p *process, name, user, address string) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		r.remarks = append(r.remarks, "no perf to ask")
		return nil
	}
	f.say("%s misses %s: asking perf", name, strings.Join(r.misses(), ", "))
	data := f.path("profiles", name, "perf.data")
	if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil {
		return err
	}
	record := exec.CommandContext(ctx, perf, "record", "-q", "-e", "cpu-clock", "-F", witnessRate, "-g", "-p", strconv.Itoa(p.pid()),
		"-o", data, "--", "sleep", fmt.Sprintf("%.0f", f.length().Seconds()))
	if err := record.Start(); err != nil {
		return fmt.Errorf("start perf: %w", err)
	}
	w, err := f.watch(ctx, p, name+"-again", user, address)
	if err := errors.Join(err, record.Wait()); err != nil {
		return fmt.Errorf("ask perf: %w", err)
	}
	seen, err := perfFunctions(ctx, perf, data)
	if err != nil {
		return err
	}
	ours, err1 := compiledFunctions(w.pprof)
	theirs, err2 := compiledFunctions(w.peer)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	r.remarks = append(r.remarks, fmt.Sprintf("perf, at %s Hz, has %.1f %% in common with ccmapd and %.1f %% with runtime/pprof, which have %.1f %%",
		witnessRate, 100*inCommon(seen, ours), 100*inCommon(seen, theirs), 100*inCommon(ours, theirs)))
	return nil
}

// perfFunctions returns the part of the time that each function has of its own. The
// kernel's time counts for the function that called it.
func perfFunctions(ctx context.Context, perf, data string) (map[string]float64, error) {
	out, err := exec.CommandContext(ctx, perf, "script", "-i", data, "-F", "ip,sym,dso").Output()
	if err != nil {
		return nil, fmt.Errorf("perf script: %w", err)
	}
	return innermost(out), nil
}

// innermost reads stacks as perf script prints them: a line a frame, "ADDRESS SYMBOL
// (OBJECT)", the innermost first, and an empty line after each.
func innermost(stacks []byte) map[string]float64 {
	parts, found := make(map[string]float64), false
	for line := range strings.Lines(string(stacks)) {
		frame, object, named := strings.Cut(strings.TrimSpace(line), " (")
		_, name, _ := strings.Cut(frame, " ")
		switch {
		case !named:
			found = false
		case !found && !strings.HasPrefix(object, "[kernel"):
			found = true
			parts[name]++
		}
	}
	return normalized(parts)
}

// compiledFunctions returns the same of a profile: the innermost function that is not
// inlined, nor a pseudo function.
func compiledFunctions(file string) (map[string]float64, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	p, err := profile.ParseData(text)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	cpu := slices.IndexFunc(p.SampleType, func(t *profile.ValueType) bool { return t.Type == "cpu" })
	if cpu < 0 {
		return nil, fmt.Errorf("%s has no CPU time", file)
	}
	parts := make(map[string]float64)
	for _, s := range p.Sample {
		for _, l := range s.Location {
			if len(l.Line) == 0 || strings.HasPrefix(l.Line[len(l.Line)-1].Function.Name, "[") {
				continue
			}
			parts[l.Line[len(l.Line)-1].Function.Name] += float64(s.Value[cpu])
			break
		}
	}
	return normalized(parts), nil
}
