package main

import (
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
)

type pointJSON struct {
	methodNameJSON
	EndLine int32            `json:"end_line,omitempty"` // of a block or branch
	Kind    string           `json:"kind"`
	Origin  string           `json:"origin"`
	Callers []methodNameJSON `json:"callers,omitzero"` // empty, but there: nobody calls
	Count   int64            `json:"count"`
	Values  []pointValueJSON `json:"values,omitempty"`
	Others  int64            `json:"others,omitempty"`
	Aged    int64            `json:"aged,omitempty"`
	Nulls   *int64           `json:"nulls,omitempty"` // where the source sees them
}

type pointValueJSON struct {
	Value           string  `json:"value,omitempty"` // of a branch or switch
	*methodNameJSON         // that was called
	Count           int64   `json:"count"`
	SharePercent    float64 `json:"share_percent"`
}

func pointsJSON(p *profile, points []ccmap.Point, hidden int) any {
	out := struct {
		Profile profileJSON `json:"profile"`
		Points  []pointJSON `json:"points"`
		Hidden  int         `json:"hidden_points"`
	}{describeJSON(p), make([]pointJSON, len(points)), hidden}
	for i, q := range points {
		out.Points[i] = onePointJSON(p.Names(), q)
	}
	return out
}

func onePointJSON(names *ccmap.Names, q ccmap.Point) pointJSON {
	out := pointJSON{
		methodNameJSON: callJSON(names, ccmap.Frame{Method: q.Method, Offset: q.Offset}), Kind: q.Kind.String(), Origin: q.Origin.String(),
		Count: q.Count, Others: q.Other, Aged: q.Aged,
	}
	if q.Kind == ccmap.PointBlock || q.Kind == ccmap.PointBranch {
		out.EndLine = names.Line(ccmap.Frame{Method: q.Method, Offset: q.End})
	}
	if q.Callers != nil {
		out.Callers = callersJSON(names, q.Callers)
	}
	if q.Nulls != ccmap.NullsUnknown {
		out.Nulls = &q.Nulls
	}
	for _, v := range shownValues(q) {
		out.Values = append(out.Values, valueJSON(names, q, v))
	}
	return out
}

func valueJSON(names *ccmap.Names, q ccmap.Point, v ccmap.PointValue) pointValueJSON {
	out := pointValueJSON{Count: v.Count, SharePercent: percent(v.Count, q.Count)}
	switch q.Kind {
	case ccmap.PointCall:
		target := nameJSON(names.At(ccmap.MethodID(v.Value)))
		out.methodNameJSON = &target
	case ccmap.PointSwitch:
		out.Value = strings.TrimPrefix(formatCall(names, ccmap.Frame{Method: q.Method, Offset: uint32(v.Value)}), ":")
	default:
		out.Value = branchName(v.Value)
	}
	return out
}
