package main

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestAgreeComparesEveryPair(t *testing.T) {
	t.Parallel()
	var runs []*ccmap.Snapshot
	for i := range uint64(5) {
		runs = append(runs, sampled(2000, i))
	}
	a, err := agree(runs)
	if err != nil {
		t.Fatal(err)
	}
	if a.runs != 5 || a.pairs != 10 || a.samples != 2000 {
		t.Errorf("%d runs, %d pairs of %v samples", a.runs, a.pairs, a.samples)
	}
	for k := range allKinds {
		switch {
		case !(a.least[k] <= a.overlap[k] && a.overlap[k] < 100):
			t.Errorf("%v overlap by %v, at least %v", k, a.overlap[k], a.least[k])
		case a.floor[k] >= a.overlap[k]:
			t.Errorf("%v: floor %v is not below %v", k, a.floor[k], a.overlap[k])
		case a.rest.overlap[k] <= a.overlap[k]:
			t.Errorf("%v: %v with all others, %v with one", k, a.rest.overlap[k], a.overlap[k])
		}
	}
	if a.coverage != 100 || a.rest.coverage != 100 || a.rest.warm != 100 {
		t.Errorf("coverage %v, %v and %v of eight edges", a.coverage, a.rest.coverage, a.rest.warm)
	}
}

func TestUnmanaged(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"runtime.mallocgc": true, "internal/runtime/maps.NewMap": true, ccmap.KernelName: true,
		"runtime.main": false, "main.main": false, "runtimes.f": false,
	} {
		if got := unmanaged(ccmap.Method{Name: name}); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestTraceGrows(t *testing.T) {
	t.Parallel()
	var runs []*ccmap.Snapshot
	for i := range uint64(4) {
		runs = append(runs, sampled(3000, i))
	}
	var c curve
	if err := c.trace(runs); err != nil {
		t.Fatal(err)
	}
	points := c.points[contexts]
	if n := len(points); n != len(parts)+2 {
		t.Errorf("%d points, want one a part, the whole, and pairs pooled", n)
	}
	for i, p := range points[1:] {
		if p.samples <= points[i].samples {
			t.Errorf("points are not sorted: %v", points)
		}
	}
	if last := points[len(points)-1]; last.overlap <= points[0].overlap {
		t.Errorf("overlap does not grow: %v", points)
	}
}
