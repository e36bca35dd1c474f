package main

import (
	"fmt"
	"slices"

	"github.com/ccmapd/ccmapd/ccmap"
)

func printPoints(env *environment, p *profile, points []ccmap.Point, list pointListing) error {
	shown := cut(points, list.limit)
	hidden := len(points) - len(shown)
	if list.json {
		return writeJSON(env.stdout, pointsJSON(p, shown, hidden))
	}
	t := &table{columns: []column{
		{title: "count", right: true},
		{title: "share", right: true, drop: 1},
		{title: "point", shorten: shortenMethod, least: 34},
		{title: "location", shorten: shortenLocation, least: 16},
		{title: "kind"},
		{title: "origin", drop: 2},
	}}
	for _, q := range shown {
		t.addPoint(p.Names(), q, list.values)
	}
	return p.print(env, t, hidden, list.note(p, points))
}

// addPoint adds a point, its callers and its values.
func (t *table) addPoint(names *ccmap.Names, q ccmap.Point, limit uint) {
	t.add(formatCount(q.Count), "", methodTitle(names.At(q.Method)), formatLines(names, q), q.Kind.String(), q.Origin.String())
	if q.Callers != nil && len(q.Callers) == 0 {
		t.add("", "", "  ← nobody: where the stack begins")
	}
	for _, c := range q.Callers {
		t.add("", "", "  ← "+methodTitle(names.At(c.Method)), formatLocation(names, c))
	}
	values := namedValues(names, q)
	shown := cut(values, limit)
	for _, v := range shown {
		t.addPointValue(q, v)
	}
	if rest := values[len(shown):]; len(rest) > 0 {
		t.addPointValue(q, sumOf(rest))
	}
	for _, v := range otherValues(q) {
		t.addPointValue(q, v)
	}
}

func (t *table) addPointValue(q ccmap.Point, v pointValue) {
	t.add(formatCount(v.count), formatPercent(percent(v.count, q.Count)), "  → "+v.name, v.location)
}

// pointValue is a value of a point as it is printed.
type pointValue struct {
	name     string
	location string
	count    int64
}

// namedValues returns the values of a point that are known, the most frequent first.
func namedValues(names *ccmap.Names, q ccmap.Point) []pointValue {
	var list []pointValue
	for _, v := range shownValues(q) {
		list = append(list, namedValue(names, q, v))
	}
	return list
}

// otherValues returns what a point counts that is no value of its own.
func otherValues(q ccmap.Point) []pointValue {
	others := "others"
	if q.Kind == ccmap.PointSwitch {
		others = "none"
	}
	list := []pointValue{{others, "", q.Other}, {"aged", "", q.Aged}, {"null", "", q.Nulls}}
	return slices.DeleteFunc(list, func(v pointValue) bool { return v.count <= 0 })
}

// sumOf adds up values that there is no room for.
func sumOf(values []pointValue) pointValue {
	sum := pointValue{name: fmt.Sprintf("%s %d more", ellipsis, len(values))}
	for _, v := range values {
		sum.count += v.count
	}
	return sum
}

// shownValues returns the values of a point, and of a branch both, though one of them
// may never have been seen.
func shownValues(q ccmap.Point) []ccmap.PointValue {
	if q.Kind != ccmap.PointBranch || len(q.Values) != 1 {
		return q.Values
	}
	return []ccmap.PointValue{q.Values[0], {Value: branchTaken - q.Values[0].Value}}
}

func namedValue(names *ccmap.Names, q ccmap.Point, v ccmap.PointValue) pointValue {
	switch q.Kind {
	case ccmap.PointCall:
		target := names.At(ccmap.MethodID(v.Value))
		return pointValue{methodTitle(target), formatDeclaration(target), v.Count}
	case ccmap.PointSwitch:
		return pointValue{"case", formatLocation(names, ccmap.Frame{Method: q.Method, Offset: uint32(v.Value)}), v.Count}
	}
	return pointValue{branchName(v.Value), "", v.Count}
}

func branchName(value uint64) string {
	if value == branchTaken {
		return "taken"
	}
	return "untaken"
}
