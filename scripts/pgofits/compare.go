package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/feedback/gopgo"
	"github.com/ccmapd/ccmapd/internal/gosym"
)

// callsOf returns every call that the binary of a tree names, by functions of the module.
func callsOf(tree, module string) ([]gopgo.Edge, error) {
	ctx := context.Background()
	table, err := gosym.OpenFile(ctx, binaryOf(tree), gosym.Options{})
	if err != nil {
		return nil, err
	}
	defer table.Close()
	methods := make(map[string]*ccmap.Method)
	all := func(string) bool { return true }
	method := func(name string) *ccmap.Method {
		if methods[name] == nil {
			methods[name] = &ccmap.Method{Name: name, File: "known", StartLine: 1}
		}
		return methods[name]
	}
	err = table.Bodies(ctx, all, func(b gosym.Body) {
		if m := method(b.Name); m.Body == 0 || m.Body == b.Hash {
			m.Body = b.Hash
		} else {
			m.Body = ccmap.MixedBodies
		}
	})
	if err != nil {
		return nil, err
	}
	type key struct {
		caller, callee string
		offset         uint32
	}
	seen := make(map[key]bool)
	var edges []gopgo.Edge
	err = table.Calls(ctx, all, func(c gosym.Call) {
		k := key{c.Caller, c.Callee, c.Offset}
		own := strings.HasPrefix(c.Caller, module+"/") || strings.HasPrefix(c.Caller, module+".") || strings.HasPrefix(c.Caller, "main.")
		if c.Callee == "" || c.Offset == ccmap.NoOffset || c.Kind == gosym.RuntimeCall || c.Kind == gosym.OtherCall || !own || seen[k] {
			return
		}
		seen[k] = true
		edges = append(edges, gopgo.Edge{Caller: method(c.Caller), Callee: method(c.Callee), Offset: c.Offset, Weight: 1, Time: 1})
	})
	return edges, err
}

// group is what classes and the truth have in common.
type group string

const (
	fits    group = "fits"
	moved   group = "moved"
	renamed group = "renamed"
	gone    group = "gone"
	untold  group = "not told"
)

func groupOf(c gopgo.Class) group {
	switch {
	case c.Fits():
		return fits
	case c == gopgo.Unread:
		return untold
	}
	return group(c)
}

// compare prints how many calls have the class that the sources give them, and returns the percentage.
func compare(name, old, now, module string) (float64, error) {
	edges, err := callsOf(old, module)
	if err != nil {
		return 0, err
	}
	t, err := newTruth(old, now, module)
	if err != nil {
		return 0, err
	}
	binary, err := gopgo.Binary(context.Background(), binaryOf(now), edges)
	if err != nil {
		return 0, err
	}
	source, err := gopgo.Source(context.Background(), now, edges)
	if err != nil {
		return 0, err
	}
	calls := gopgo.Calls{Edges: edges, Hot: len(edges)}
	right := t.tally(name+", binary", gopgo.Check(calls, binary))
	t.tally(name+", source", gopgo.Check(calls, source))
	return right, nil
}

// tally prints a row.
func (t *truth) tally(name string, checked []gopgo.Checked) float64 {
	counts := make(map[[2]group]int)
	classes := make(map[gopgo.Class]int)
	right, told, lines, wrongLines := 0, 0, 0, 0
	var changed, changedRight int // of told, in functions whose text is another one
	for _, c := range checked {
		want, offset := t.of(c.Edge)
		got := groupOf(c.Class)
		counts[[2]group{want, got}]++
		if want == untold || got == untold {
			if got == gone && os.Getenv("PGOFITS_SHOW") != "" {
				fmt.Printf("  untold: %v: %s\n", c.Edge, c.Why)
			}
			continue
		}
		told++
		differs := t.changed(c.Edge)
		if differs {
			changed++
		}
		classes[c.Class]++
		if want == got {
			right++
			if differs {
				changedRight++
			}
			if got == moved && c.Why == "" && offset != ccmap.NoOffset {
				if lines++; c.Now.Offset != offset {
					wrongLines++
				}
			}
		} else if os.Getenv("PGOFITS_SHOW") != "" {
			fmt.Printf("  %v: %s (%s), by the sources %s at %d\n", c.Edge, c.Class, c.Why, want, int32(offset))
		}
	}
	percent := 100 * float64(right) / float64(max(told, 1))
	fmt.Printf("%s: %d calls, %d told; right %.2f %%; in changed functions %d of %d; new lines right %d of %d; %v\n", name, len(checked), told, percent, changedRight, changed, lines-wrongLines, lines, classes)
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b [2]group) int { return counts[b] - counts[a] })
	for _, k := range keys {
		if k[0] != k[1] {
			fmt.Printf("    %s, and check says %s: %d\n", k[0], k[1], counts[k])
		}
	}
	return percent
}
