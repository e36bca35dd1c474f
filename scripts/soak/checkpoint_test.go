package soak

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

const (
	leastCoverage  = 0.95
	mostHeapGrowth = 1.1
)

// checkpoint is the state at one moment.
type checkpoint struct {
	at       time.Duration // on the program's clock
	folded   int64
	made     int // stacks of the synthetic program
	prunes   ccmap.PruneStats
	nodes    int
	bytes    int64
	pruned   float64 // share of the map's time at [pruned]
	coverage coverage
	heap     int64 // bytes of live objects, including the soak's own
}

// checkpoint checks all invariants.
func (s *soak) checkpoint(at time.Duration) error {
	if err := s.m.CheckValid(); err != nil {
		return err
	}
	snapshot := s.m.Snapshot()
	if err := s.ledger.check(snapshot, s.stacks()); err != nil {
		return err
	}
	found, err := s.checkWindow(snapshot)
	if err != nil {
		return err
	}
	c := checkpoint{
		at: at, folded: s.folded, made: s.program.made,
		prunes: snapshot.Meta().Pruned, nodes: snapshot.Len(), bytes: s.m.Bytes(),
		pruned:   float64(snapshot.PrunedTotal().Time) / float64(snapshot.Total().Time),
		coverage: found,
	}
	snapshot, s.truth = nil, nil
	if err := s.reader.release(); err != nil {
		return err
	}
	c.heap = heap()
	if c.prunes.Times > 0 {
		s.beside = append(s.beside, c.heap-c.bytes)
	}
	if got := runtime.NumGoroutine(); got != s.goroutines {
		return fmt.Errorf("%d goroutines, %d at the start", got, s.goroutines)
	}
	s.report(c)
	return nil
}

// checkWindow compares the hottest contexts of the window with the truth's.
func (s *soak) checkWindow(snapshot *ccmap.Snapshot) (coverage, error) {
	window, ok := snapshot.Recent()
	if !ok {
		return coverage{}, fmt.Errorf("map has no window")
	}
	truth, _ := s.truth.Snapshot().Recent()
	c := covers(window, truth)
	if c.hot < leastCoverage || c.top < leastCoverage {
		return c, fmt.Errorf("of the window's contexts %.1f %% at tau = %g and %.1f %% of the top %d are covered, want %.0f %%",
			100*c.hot, tau, 100*c.top, topContexts, 100*leastCoverage)
	}
	return c, nil
}

// checkHeap checks that the heap beside the map has not grown since the map first pruned.
func (s *soak) checkHeap() error {
	third := len(s.beside) / 3
	if third == 0 {
		return nil
	}
	before, after := median(s.beside[:third]), median(s.beside[len(s.beside)-third:])
	if float64(after) > mostHeapGrowth*float64(before) {
		return fmt.Errorf("heap beside the map has grown from %d bytes to %d", before, after)
	}
	return nil
}

func median(v []int64) int64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// heap returns the bytes of live objects.
func heap() int64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

const (
	topContexts = 100
	tau         = 0.1 // of the hottest context's time
)

// coverage says which of a window's hottest contexts, by their own recent time, a pruned
// map still has.
type coverage struct {
	hot   float64 // share of the contexts with at least tau of the hottest's time
	top   float64 // share of the topContexts hottest
	right float64 // share of these whose time is within 10 % of the truth
}

// covers compares a window with the window of a map that was never pruned. Both have the
// same names.
func covers(window, truth *ccmap.Snapshot) coverage {
	hot := hottest(truth, topContexts)
	found := timesOf(window, truth, hot)
	var c coverage
	overTau := 0
	for i, h := range hot {
		has := found[i] > 0
		if float64(h.time) >= tau*float64(hot[0].time) {
			overTau++
			c.hot += one(has)
		}
		c.top += one(has)
		c.right += one(10*found[i] >= 9*h.time && 10*found[i] <= 11*h.time)
	}
	c.hot /= float64(overTau)
	c.top /= float64(len(hot))
	c.right /= float64(len(hot))
	return c
}

func one(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// context is a method's node and its own time, with the time of its positions.
type context struct {
	node ccmap.NodeID
	time int64
}

// hottest returns the contexts with the most time of their own, the hottest
// first.
func hottest(s *ccmap.Snapshot, n int) []context {
	var all []context
	for id, time := range ownTimes(s) {
		if time > 0 {
			all = append(all, context{ccmap.NodeID(id), time})
		}
	}
	slices.SortFunc(all, func(a, b context) int {
		return cmp.Or(cmp.Compare(b.time, a.time), cmp.Compare(a.node, b.node))
	})
	return all[:min(n, len(all))]
}

// ownTimes returns the time of each node. The time of positions counts for their method.
func ownTimes(s *ccmap.Snapshot) []int64 {
	times := make([]int64, s.Len())
	for n := range s.Nodes() {
		at := n.ID
		if n.IsPosition() {
			at = n.Parent
		}
		times[at] += n.Self.Time
	}
	return times
}

// timesOf returns the times of the truth's contexts in another window, or 0. It follows
// only the paths to them, in one pass over all nodes: parents come first.
func timesOf(window, truth *ccmap.Snapshot, contexts []context) []int64 {
	paths := pathsTo(truth, contexts)
	node := make(map[ccmap.NodeID]ccmap.NodeID, len(contexts)) // of the window, by the truth's
	same := make([]ccmap.NodeID, window.Len())                 // of the truth; 0: on no path
	for n := range window.Nodes() {
		if n.ID == 0 || n.Parent != 0 && same[n.Parent] == 0 {
			continue
		}
		if t, ok := paths[child{same[n.Parent], n.Offset, n.Method}]; ok {
			same[n.ID], node[t] = t, n.ID
		}
	}
	own := ownTimes(window)
	times := make([]int64, len(contexts))
	for i, c := range contexts {
		times[i] = own[node[c.node]] // 0 for the root
	}
	return times
}

// child identifies a node within its parent.
type child struct {
	parent ccmap.NodeID
	offset uint32
	method ccmap.MethodID
}

// pathsTo returns the nodes from the root to the contexts.
func pathsTo(s *ccmap.Snapshot, contexts []context) map[child]ccmap.NodeID {
	paths := make(map[child]ccmap.NodeID)
	for _, c := range contexts {
		for id := c.node; id != 0; {
			n := s.Node(id)
			paths[child{n.Parent, n.Offset, n.Method}] = id
			id = n.Parent
		}
	}
	return paths
}
