package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
)

const pointsLong = `Points lists the profile points of a profile, method by method: what was counted at
single positions of its code, beside the stacks.

  count     executions that were counted
  share     of a value, of these
  point     the method, and its values below it
  location  the line, or the lines from first to last
  kind      and what its values are:
    call    a call through an interface or a function value: the methods it reached
    block   statements that are executed together, with no values; the first block
            of a method counts its calls
    branch  a condition: taken if it was true, untaken if not
    switch  the lines of the cases that were chosen; 'none' for no case
  origin    who counted:
    sampled   CPU samples: the count is samples, as exact as in 'sites'
    burst     calls that were caught, a few of all
    imported  the program itself: all executions (convert --coverage)

Calls whose callers are known stand with them (←, the innermost first); others
are of any callers. 'others' are values that were not kept apart, 'aged' are counts
of any value that files of earlier versions had forgotten, and 'null' are calls of
nothing, where the source sees them.

` + phasesHelp + `

The method with the highest count comes first, and in it what comes first in the
source; --sort count orders points alone, --sort name methods by name. METHOD is a
name, or as much of its end as is unique.

With --json: profile {as in top}, points [{method, signature, file, line, end_line,
kind, origin, callers [{method, signature, file, line and position of the call, see
query}], count, values
[{value ("taken", "untaken" or the line of a case), or method, signature, file and
line of a callee; count, share_percent}], others, aged, nulls}], hidden_points. What
a point does not have is left out: without callers any are meant.`

const pointsExample = `  ccmapd points web.json
  ccmapd points web.json Server.handle           those of one method
  ccmapd points --kind branch --sort count web.json
  ccmapd points --json --origin imported web.json | jq '.points[] | select(.count == 0)'`

func newPointsCmd(env *environment) *cobra.Command {
	list := pointListing{kind: choice{from: pointKindNames()}, origin: choice{from: pointOriginNames()}}
	cmd := &cobra.Command{
		Use:               "points FILE [METHOD]",
		Short:             "List what was counted at single positions of the code",
		Long:              pointsLong,
		Example:           pointsExample,
		GroupID:           groupRead,
		Args:              methodArgs(0, "a profile, and perhaps a method"),
		ValidArgsFunction: completeMethods(env),
		RunE: func(_ *cobra.Command, args []string) error {
			p, methods, err := list.loadWithMethods(env, args)
			if err == nil {
				err = list.phase.apply(p)
			}
			if err != nil {
				return err
			}
			return printPoints(env, p, list.points(p, methods), list)
		},
	}
	list.register(cmd)
	return cmd
}

// pointListing are the flags of points. It has no window: points are of whole runs.
type pointListing struct {
	listing
	kind, origin choice
	phase        phaseFlag
	values       uint
}

// sortMethod orders methods by their highest count, and points by their lines.
const sortMethod = "method"

const sortCount = "count"

func (l *pointListing) register(cmd *cobra.Command) {
	l.phase.register(cmd)
	l.sort = choice{value: sortMethod, from: []string{sortMethod, sortCount, sortName}}
	flags := cmd.Flags()
	flags.UintVarP(&l.limit, "limit", "n", 20, "list at most `N`; 0: all")
	flags.UintVar(&l.values, "values", 5, "list at most `N` values of a point, and the others as one; 0: all")
	l.methodFlags.register(cmd)
	registerChoice(cmd, &l.kind, "kind", "list points of one `KIND`: "+orList(l.kind.from))
	registerChoice(cmd, &l.origin, "origin", "list points of one `ORIGIN`: "+orList(l.origin.from))
	registerChoice(cmd, &l.sort, "sort", "order `BY` "+orList(l.sort.from))
	flags.BoolVar(&l.json, "json", false, "print JSON")
}

func pointKindNames() []string {
	var names []string
	for k := ccmap.PointCall; k <= ccmap.PointSwitch; k++ {
		names = append(names, k.String())
	}
	return names
}

func pointOriginNames() []string {
	var names []string
	for o := ccmap.OriginSampled; o <= ccmap.OriginImported; o++ {
		names = append(names, o.String())
	}
	return names
}

// points returns the points that are asked for, in order. A nil set means those of
// all methods.
func (l *pointListing) points(p *profile, methods query.Methods) []ccmap.Point {
	points := slices.DeleteFunc(p.points(), func(q ccmap.Point) bool {
		return methods != nil && !methods.Has(q.Method) ||
			l.kind.value != "" && q.Kind.String() != l.kind.value ||
			l.origin.value != "" && q.Origin.String() != l.origin.value
	})
	highest := make(map[ccmap.MethodID]int64)
	for _, q := range points {
		highest[q.Method] = max(highest[q.Method], q.Count)
	}
	slices.SortFunc(points, func(a, b ccmap.Point) int {
		order := 0
		switch l.sort.value {
		case sortMethod:
			order = cmp.Compare(highest[b.Method], highest[a.Method])
		case sortCount:
			order = cmp.Compare(b.Count, a.Count)
		}
		return cmp.Or(order, query.Compare(p.Names(), a.Method, b.Method), inSource(a, b))
	})
	return points
}

// points returns all points of a profile, in no order. The map has the exact samples
// of every call, so points of samples are made of them; those that a file of an
// earlier version holds are not looked at.
func (p *profile) points() []ccmap.Point {
	points := slices.DeleteFunc(slices.Clone(p.countedPoints()), func(q ccmap.Point) bool {
		return q.Origin == ccmap.OriginSampled && q.Kind == ccmap.PointCall
	})
	if !p.countsSamples() {
		return points
	}
	for _, site := range p.pollution().Sites(nil) {
		if q, ok := site.SampledPoint(); ok {
			points = append(points, q)
		}
	}
	return points
}

// inSource orders the points of a method as they stand in its source; what is around
// others comes first.
func inSource(a, b ccmap.Point) int {
	return cmp.Or(
		cmp.Compare(int32(a.Offset), int32(b.Offset)),
		cmp.Compare(int32(b.End), int32(a.End)),
		a.Compare(b),
	)
}

// note says how many points there are, or why there are none.
func (l *pointListing) note(p *profile, points []ccmap.Point) string {
	all := len(p.points())
	methods := make(map[ccmap.MethodID]bool)
	for _, q := range points {
		methods[q.Method] = true
	}
	switch {
	case len(points) > 0:
		return fmt.Sprintf("%s of %s%s", plural(int64(len(points)), "point"), plural(int64(len(methods)), "method"), p.ofPhase())
	case all > 0:
		return "no such point, of " + plural(int64(all), "point")
	}
	return "no points: 'attach' and 'run' count the methods that calls reach, 'convert --coverage' adds\n" +
		"counts of blocks and branches, and the formats xml and json keep them all"
}
