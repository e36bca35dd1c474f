package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/prometheus/procfs"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// witnessRate is the third witness's, in Hz: not a multiple of the other two, so that no
// program is in step with all of them.
const witnessRate = "173"

// callWitness watches a program once more, with perf record beside the two others, and
// notes which of them perf agrees with, by the own time of methods.
func (f *field) callWitness(ctx context.Context, r *row, p *campaign.Process, name, user, address string) error {
	perf, err := exec.LookPath("perf")
	if err != nil {
		r.remarks = append(r.remarks, "no perf to ask")
		return nil
	}
	f.Say("%s misses %s: asking perf", name, strings.Join(r.misses(), ", "))
	symbols, err := gosym.Open(ctx, p.PID(), gosym.Options{})
	if err != nil {
		return fmt.Errorf("read symbols for perf: %w", err)
	}
	defer symbols.Close()
	w := f.newWindow(name + again)
	data := filepath.Join(filepath.Dir(w.file), "perf.data")
	if err := campaign.WritableBy(user, filepath.Dir(data)); err != nil {
		return err
	}
	event := "cpu-clock"
	if user != "" {
		event = "cpu-clock:u" // as in ccmapd without privileges
	}
	record := exec.CommandContext(ctx, perf, "record", "-q", "-e", event, "-F", witnessRate, "-g", "-p", strconv.Itoa(p.PID()),
		"-o", data, "--", "sleep", fmt.Sprintf("%.0f", f.length().Seconds()))
	if err := record.Start(); err != nil {
		return fmt.Errorf("start perf: %w", err)
	}
	w, err = f.watch(ctx, p, name+again, user, address)
	if err := errors.Join(err, record.Wait()); err != nil {
		return fmt.Errorf("ask perf: %w", err)
	}
	stacks, err := exec.CommandContext(ctx, perf, "script", "-i", data, "-F", "ip,dso").Output()
	if err != nil {
		return fmt.Errorf("perf script: %w", err)
	}
	maps, err := procfs.NewProc(p.PID())
	if err != nil {
		return err
	}
	mapped, err := maps.ProcMaps()
	if err != nil {
		return fmt.Errorf("read memory map: %w", err)
	}
	return r.weigh(seenByPerf(userStacks(stacks, mapped), symbols), w)
}

// weigh notes the agreement of a window's three witnesses.
func (r *row) weigh(perf map[string]float64, w window) error {
	ours, err1 := campaign.ReadProfile(w.file)
	theirs, err2 := campaign.ReadProfile(w.peer)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	a, b := ownTime(ours), ownTime(theirs)
	r.remarks = append(r.remarks, fmt.Sprintf("perf at %s Hz has %.1f %% of the methods' own time in common with ccmapd and %.1f %% with runtime/pprof, which have %.1f %%",
		witnessRate, 100*inCommon(perf, a), 100*inCommon(perf, b), 100*inCommon(a, b)))
	return nil
}

// userStacks reads stacks as perf script prints them: a line a frame, the innermost
// first, and an empty line after each stack. A line has an offset in a file and, in
// parentheses, the file. userStacks returns addresses. It leaves out the kernel's.
func userStacks(text []byte, mapped []*procfs.ProcMap) [][]uint64 {
	var stacks [][]uint64
	var stack []uint64
	for line := range strings.Lines(string(text) + "\n\n") {
		at, file, framed := strings.Cut(strings.TrimSpace(line), " (")
		offset, err := strconv.ParseUint(at, 16, 64)
		switch kernel := offset >= 1<<63; {
		case framed && err == nil && !kernel:
			stack = append(stack, address(offset, strings.TrimSuffix(file, ")"), mapped))
		case !framed && len(stack) > 0:
			stacks = append(stacks, stack)
			stack = nil
		}
	}
	return stacks
}

// address returns the address that an offset in a file is mapped to, or the offset itself
// if that is unknown.
func address(offset uint64, file string, mapped []*procfs.ProcMap) uint64 {
	for _, m := range mapped {
		from := uint64(m.Offset)
		if m.Pathname == file && m.Perms.Execute && offset >= from && offset-from < uint64(m.EndAddr-m.StartAddr) {
			return uint64(m.StartAddr) + offset - from
		}
	}
	return offset
}

// seenByPerf returns each method's part of its own time, by perf's stacks. Foreign frames
// count for their callers.
func seenByPerf(stacks [][]uint64, symbols *gosym.Table) map[string]float64 {
	names := ccmap.NewNames()
	parts := make(map[string]float64)
	for _, pcs := range stacks {
		for _, frame := range symbols.Stack(pcs, names, nil) {
			if m := names.At(frame.Method); !absorbed(m) {
				parts[m.Name]++
				break
			}
		}
	}
	return normalized(parts)
}

// ownTime returns the same for a profile.
func ownTime(s *ccmap.Snapshot) map[string]float64 {
	parts := make(map[string]float64)
	for n := range s.Nodes() {
		for at := n; at.ID != 0; at = s.Node(at.Parent) {
			if at.Method == ccmap.NoMethod {
				continue
			}
			if m := s.Names().At(at.Method); !absorbed(m) {
				parts[m.Name] += float64(n.Self.Time)
				break
			}
		}
	}
	return normalized(parts)
}
