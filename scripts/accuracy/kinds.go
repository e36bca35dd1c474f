package main

import (
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// kind is what an overlap is taken over, from coarse to fine.
type kind int

const (
	methods kind = iota
	edges
	managed  // contexts without what the runtime and the kernel do
	contexts // the whole Call Context Map
	allKinds
)

var kindNames = [allKinds]string{"methods", "edges", "managed contexts", "contexts"}

func (k kind) String() string { return kindNames[k] }

// comparison is that of two profiles, in all kinds.
type comparison struct {
	compare.Result
	overlaps [allKinds]compare.Overlap
}

// compareRuns compares by time, as runs may have had different intervals.
func compareRuns(p, q *ccmap.Snapshot) (comparison, error) {
	all, err := compare.Compare(p, q, compare.Options{})
	if err != nil {
		return comparison{}, err
	}
	own, err := compare.Compare(p, q, compare.Options{Absorb: unmanaged})
	if err != nil {
		return comparison{}, err
	}
	return comparison{all, [allKinds]compare.Overlap{
		methods: all.Methods, edges: all.Edges, managed: own.Contexts, contexts: all.Contexts,
	}}, nil
}

// unmanaged tells what the paper's VM would not have sampled: its own code and
// the kernel's. A program's main goroutine begins in the runtime.
func unmanaged(m ccmap.Method) bool {
	switch m.Name {
	case "runtime.main":
		return false
	case ccmap.KernelName, ccmap.TruncatedName:
		return true
	}
	return strings.HasPrefix(m.Name, "runtime.") || strings.HasPrefix(m.Name, "internal/runtime/")
}
