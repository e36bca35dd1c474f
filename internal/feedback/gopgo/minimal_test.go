package gopgo

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// call is an edge by names.
func call(caller string, offset uint32, callee string, weight int64) Edge {
	method := func(name string) *ccmap.Method { return &ccmap.Method{Name: name, File: "x.go", StartLine: 10} }
	return Edge{method(caller), method(callee), offset, weight, weight - 1}
}

// compiled returns the edges that the compiler reads from a map, with their hot ones first.
func compiled(t interface{ Fatal(...any) }, m *ccmap.Map) (edges []Edge, hot int) {
	counted, err := export.PGOEdges(m.Snapshot())
	if err != nil {
		t.Fatal(err)
	}
	names := m.Names()
	for e, c := range counted {
		caller, callee := names.At(e.Caller), names.At(e.Callee)
		edges = append(edges, Edge{&caller, &callee, e.Offset, c.Samples, c.Time})
	}
	slices.SortFunc(edges, compareEdges)
	return edges, Hot(edges)
}

// isFiller reports whether no program has the edge.
func isFiller(e Edge) bool { return strings.HasPrefix(e.Caller.Name, fillerName) }

// TestMinimalIsHotAlike: whatever the weights, the compiler finds the same calls hot in the minimal profile,
// in the same order, and the heaviest callee of each name at a line is the one that it was.
func TestMinimalIsHotAlike(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var edges []Edge
		seen := make(map[string]bool)
		for range rapid.IntRange(1, 60).Draw(t, "edges") {
			e := call(fmt.Sprintf("p.f%d", rapid.IntRange(0, 5).Draw(t, "caller")), uint32(rapid.IntRange(0, 6).Draw(t, "line")),
				fmt.Sprintf("q.T%d.m%d", rapid.IntRange(0, 3).Draw(t, "type"), rapid.IntRange(0, 2).Draw(t, "method")),
				rapid.OneOf(rapid.Int64Range(1, 4), rapid.Int64Range(1, 1<<40)).Draw(t, "weight"))
			if !seen[e.String()] {
				seen[e.String()] = true
				edges = append(edges, e)
			}
		}
		slices.SortFunc(edges, compareEdges)
		m, err := Minimize(edges, 1).Map(ccmap.Meta{})
		if err != nil {
			t.Fatal(err)
		}
		got, hot := compiled(t, m)
		checkHot(t, edges[:Hot(edges)], got, hot)
		checkHeaviest(t, edges, got)
	})
}

// checkHot compares hot edges, and those of the minimal profile in their order.
func checkHot(t *rapid.T, want, got []Edge, hot int) {
	fillers := 0
	for i, e := range got[:hot] {
		switch {
		case isFiller(e):
			fillers++
		case i >= len(want) || e.String() != want[i].String() || e.Time != want[i].Time:
			t.Fatalf("hot edge %d is %v", i, e)
		}
	}
	if n := hot - fillers; n != len(want) || fillers > 1 {
		t.Fatalf("%d hot edges and %d fillers, want %d", n, fillers, len(want))
	}
}

// checkHeaviest compares the heaviest callees of each line and name.
func checkHeaviest(t *rapid.T, want, got []Edge) {
	heaviest := func(edges []Edge) map[string]string {
		first := make(map[string]string)
		for _, e := range edges {
			key := fmt.Sprint(e.Caller.Name, e.Offset, lastName(e.Callee.Name))
			if first[key] == "" && !isFiller(e) {
				first[key] = e.Callee.Name
			}
		}
		return first
	}
	now := heaviest(got)
	for key, callee := range heaviest(want) {
		if now[key] != callee {
			t.Fatalf("at %s the heaviest callee is %q, want %q", key, now[key], callee)
		}
	}
}

// TestLeast: lighter calls are left out, and the rest of the hot ones stays hot.
func TestLeast(t *testing.T) {
	t.Parallel()
	edges := []Edge{call("f", 1, "g", 5), call("f", 2, "h", 1), call("f", 3, "i", 1)}
	m, err := Minimize(edges, 2).Map(ccmap.Meta{Comments: []string{"first"}})
	if err != nil {
		t.Fatal(err)
	}
	got, _ := compiled(t, m)
	if len(got) != 2 || got[0].String() != edges[0].String() || !isFiller(got[1]) {
		t.Errorf("edges %v", got)
	}
	if !HasRanks(*m.Meta()) || m.Meta().Comments[0] != "first" {
		t.Errorf("comments %q", m.Meta().Comments)
	}
	if _, err := Edges(m.Snapshot(), BySamples); !errors.Is(err, ErrRanks) {
		t.Errorf("ranks as samples: %v", err)
	}
	if _, err := Minimize(edges, 6).Map(ccmap.Meta{}); !errors.Is(err, ErrNoEdges) {
		t.Errorf("nothing left: %v", err)
	}
}

// TestHugeWeights: weights whose sum overflows are edges like others.
func TestHugeWeights(t *testing.T) {
	t.Parallel()
	edges := []Edge{call("f", 1, "g", 1<<63-1), call("f", 2, "h", 1<<63-1)}
	if _, err := Minimize(edges, 1).Map(ccmap.Meta{}); err != nil {
		t.Error(err)
	}
}

// TestEdges counts by samples as the compiler does, and by activations at all depths.
func TestEdges(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	node, offset := m.Root(), ccmap.NoOffset
	for i, name := range []string{"main.main", "main.f", "main.g", "main.h"} {
		node = m.Child(node, offset, m.Names().Intern(ccmap.Method{Name: name, File: "main.go", StartLine: 3}))
		m.Add(node, ccmap.Counters{Activations: 7})
		offset = uint32(i)
	}
	m.Add(node, ccmap.Counters{Samples: 2, Time: 20})
	for by, want := range map[Weight]string{
		BySamples:     "[main.g+2 → main.h 2 20]",
		ByActivations: "[main.f+1 → main.g 7 7 main.g+2 → main.h 7 7 main.main+0 → main.f 7 7]",
	} {
		edges, err := Edges(m.Snapshot(), by)
		var got []string
		for _, e := range edges {
			got = append(got, fmt.Sprint(e, e.Weight, e.Time))
		}
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("by %s: %v, %v, want %s", by, got, err, want)
		}
	}
	m = ccmap.New(ccmap.Options{})
	if _, err := Edges(m.Snapshot(), BySamples); !errors.Is(err, ErrNoEdges) {
		t.Errorf("empty profile: %v", err)
	}
	addEdge(m, &ccmap.Method{Name: "f", File: "x", StartLine: 1}, &ccmap.Method{Name: "g", File: "x", StartLine: 1}, 1, ccmap.Counters{Samples: 1, Time: 1})
	if _, err := Edges(m.Snapshot(), ByActivations); !errors.Is(err, ErrNoActivations) {
		t.Errorf("no activations: %v", err)
	}
}

// TestReadDecisions reads what the compiler of Go 1.26 prints.
func TestReadDecisions(t *testing.T) {
	t.Parallel()
	const said = `# example.com/x
hot-callsite-thres-from-CDF=0.1
hot-node enabled increased budget=2000 for func=main.total
hot-budget check allows inlining for call main.total (cost 121) at ./main.go:33:7 in function main.main
{"Pkg":"main","Pos":"./main.go:27:14","Caller":"main.total","Direct":false,"Interface":true,"Devirtualized":"main.sq.area"}
{"Pkg":"main","Pos":"./main.go:28:14","Caller":"main.total","Direct":true}
`
	long := strings.Repeat("x", 1<<16) + "\n"
	got, err := readDecisions(strings.NewReader(long + said))
	want := []string{
		"devirtualizes main.sq.area at ./main.go:27:14 in function main.total",
		"inlines main.total (cost 121) at ./main.go:33:7 in function main.main",
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if err := SameDecisions(got, want); err != nil {
		t.Error(err)
	}
	for _, other := range [][]string{want[:1], append(want[:2:2], "more")} {
		if err := SameDecisions(want, other); !errors.Is(err, ErrDecisions) {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// FuzzDecisions takes anything for the compiler's output.
func FuzzDecisions(f *testing.F) {
	f.Add("{\"Devirtualized\":1}\nhot-budget check allows inlining for call \n")
	f.Fuzz(func(t *testing.T, said string) {
		if _, err := readDecisions(strings.NewReader(said)); err != nil {
			t.Fatal(err)
		}
	})
}
