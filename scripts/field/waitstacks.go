package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// shiftReasons are the reasons of the functions of the driver shifts.
var shiftReasons = map[string]string{
	"main.sleeps": "[sleep]", "main.receives": "[chan receive]", "main.selects": "[select]", "main.locks": "[sync.Mutex.Lock]",
	"main.conditions": "[sync.Cond.Wait]", "main.reads": "[IO wait]",
}

const shiftRoot = "main.(*worker).shifts"

// shiftStacks are the stacks of the goroutines of shifts.
type shiftStacks struct {
	told, wrong     int64
	movedTime, time float64
	example         string
}

// measureShifts looks at goroutines that go from wait to wait, and returns the cells of a row.
func (f *field) measureShifts(ctx context.Context, goroutines, spinners int) ([]string, error) {
	executable, err := f.build(ctx, build{name: "shifts", files: map[string]string{"main.go": readDriver("shifts/main.go")}})
	if err != nil {
		return nil, err
	}
	p, err := campaign.Launch{Command: []string{executable, strconv.Itoa(goroutines), strconv.Itoa(spinners)}, Ready: regexp.MustCompile(`^waiting$`)}.Start(ctx)
	if err != nil {
		return nil, err
	}
	defer p.Stop()
	profile, load, err := f.sampleWaits(ctx, p, "shifts", 3*f.length(), func() {})
	if err != nil {
		return nil, err
	}
	stacks := shiftsOf(profile)
	if stacks.wrong > 0 {
		f.Say("wrong, for example: %s", stacks.example)
	}
	return []string{
		fmt.Sprintf("%d goroutines in six kinds of waits of 1 to 15 ms, %d spin", goroutines, spinners), report.Number(load, 0),
		report.Count(float64(stacks.told)), report.Count(float64(stacks.wrong)), report.Number(100*stacks.movedTime/stacks.time, 2),
	}, nil
}

// shiftsOf looks at all stacks. A stack is wrong if its function waits for another reason, or if other functions are below.
func shiftsOf(s *ccmap.Snapshot) (all shiftStacks) {
	for n := range s.Nodes() {
		if n.Self.Samples == 0 {
			continue
		}
		path := pathOf(s, n)
		ours := path[len(path)-1] == shiftRoot
		for _, name := range path {
			if name == "[moved]" {
				all.movedTime += float64(n.Self.Time)
			}
		}
		all.time += float64(n.Self.Time)
		reason, way := path[0], ""
		for _, name := range path[1:] {
			if strings.HasPrefix(name, "main.") {
				way = name
				break
			}
		}
		if !ours && shiftReasons[way] == "" {
			continue // of a goroutine that wakes others, or without a stack
		}
		all.told += n.Self.Samples
		if !shiftHolds(path, reason, way, ours) {
			all.wrong += n.Self.Samples
			all.example = strings.Join(path, " ← ")
		}
	}
	return all
}

// shiftHolds reports whether a stack can be.
func shiftHolds(path []string, reason, way string, ours bool) bool {
	for function, its := range shiftReasons {
		if its == reason && function != way && !(reason == "[sync.Mutex.Lock]" && way == "main.conditions") {
			return false
		}
	}
	below := false
	for _, name := range path {
		switch {
		case name == way:
			below = true
		case below && name != "main.(*worker).down" && name != shiftRoot:
			return false
		}
	}
	return ours
}

// pathOf returns the names of a node's stack, the innermost first.
func pathOf(s *ccmap.Snapshot, n ccmap.Node) (names []string) {
	for ; n.Method != ccmap.NoMethod; n = s.Node(n.Parent) {
		names = append(names, s.Names().At(n.Method).Name)
	}
	return names
}
