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

// comparison compares the classes of calls of an older tree with the truth of a newer one.
type comparison struct {
	now   string // tree
	truth *truth
}

func newComparison(old, now, module, cmd string) (*comparison, error) {
	t, err := newTruth(old, now, module, cmd)
	return &comparison{now, t}, err
}

// compared is what is right of a profile's calls, by the newer binary and by the newer source.
type compared struct {
	checked        []gopgo.Checked // by the binary
	binary, source tally
}

// of prints how many calls have the class that the sources give them.
func (c *comparison) of(name string, calls gopgo.Calls) (compared, error) {
	binary, err := gopgo.Binary(context.Background(), binaryOf(c.now), calls.Edges)
	if err != nil {
		return compared{}, err
	}
	source, err := gopgo.Source(context.Background(), c.now, calls.Edges)
	if err != nil {
		return compared{}, err
	}
	r := compared{checked: gopgo.Check(calls, binary)}
	r.binary = c.truth.tally(name+", binary", r.checked)
	r.source = c.truth.tally(name+", source", gopgo.Check(calls, source))
	return r, nil
}

// compare compares every call that the older tree's binary names, and returns the percentage that is right.
func compare(name, old, now, module, cmd string) (float64, error) {
	edges, err := callsOf(old, module)
	if err != nil {
		return 0, err
	}
	c, err := newComparison(old, now, module, cmd)
	if err != nil {
		return 0, err
	}
	r, err := c.of(name, gopgo.Calls{Edges: edges, Hot: len(edges)})
	return r.binary.percent(), err
}

// tally counts calls of which check and the sources tell, and what they weigh.
type tally struct {
	told               int
	weight, right, all int64 // of those, of the right ones, and of all calls
}

// percent returns the share of the weight that is right.
func (t tally) percent() float64 { return 100 * float64(t.right) / float64(max(t.weight, 1)) }

// tells returns the share of all weight of which both tell.
func (t tally) tells() float64 { return 100 * float64(t.weight) / float64(max(t.all, 1)) }

func (t tally) String() string { return fmt.Sprintf("%.2f %%", t.percent()) }

// tally prints a row.
func (t *truth) tally(name string, checked []gopgo.Checked) (sum tally) {
	counts := make(map[[2]group]int)
	classes := make(map[gopgo.Class]int)
	lines, wrongLines := 0, 0
	var changed, changedRight int // of told, in functions whose text is another one
	for _, c := range checked {
		sum.all += c.Share
		want, offset := t.of(c.Edge)
		got := groupOf(c.Class)
		counts[[2]group{want, got}]++
		if want == untold || got == untold {
			if got == gone && os.Getenv("PGOFITS_SHOW") != "" {
				fmt.Printf("  untold: %v: %s\n", c.Edge, c.Why)
			}
			continue
		}
		sum.told++
		sum.weight += c.Share
		differs := t.changed(c.Edge)
		if differs {
			changed++
		}
		classes[c.Class]++
		if want == got {
			sum.right += c.Share
			if differs {
				changedRight++
			}
			if got == moved && c.Why == "" && offset != ccmap.NoOffset {
				if lines++; c.Now.Offset != offset {
					wrongLines++
				}
			}
		} else if os.Getenv("PGOFITS_SHOW") != "" {
			fmt.Printf("  %v: weighs %d, %s (%s), by the sources %s at %d\n", c.Edge, c.Share, c.Class, c.Why, want, int32(offset))
		}
	}
	fmt.Printf("%s: %d calls, %d told, %.1f %% of the weight; right %v; in changed functions %d of %d; new lines right %d of %d; %v\n",
		name, len(checked), sum.told, sum.tells(), sum, changedRight, changed, lines-wrongLines, lines, classes)
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b [2]group) int { return counts[b] - counts[a] })
	for _, k := range keys {
		if k[0] != k[1] {
			fmt.Printf("    %s, and check says %s: %d\n", k[0], k[1], counts[k])
		}
	}
	return sum
}
