package mergebench

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// fleet is a service on many machines, as their profiles see it: one program, whose
// contexts are hot by Zipf's law. A machine has met the hottest contexts, and some of the
// others, depending on its requests.
//
// 10,000 contexts of it are 30 frames deep on average, have 9.6 context nodes each, 3,450
// methods and 5,170 locations together. Profiles of the Go compiler, sampled by ccmapd
// while it built go/types, had 7,500 contexts of 28 frames, 7.7 nodes each and 2,930
// methods, or 13,400 of 30 frames, 10.8 and 3,340.
type fleet struct {
	methods  []ccmap.Method
	contexts []context // the hottest first
	perFile  int       // contexts of one machine
}

// context is a stack, outermost frame first.
type context []ccmap.Frame

const (
	packages  = 240
	types     = 1200
	functions = 6000
	roots     = 12
	minDepth  = 20
	maxDepth  = 40
	// zipf is the exponent of the contexts' weights: with it, 10,000 contexts
	// are about 30,000 samples, five minutes of a core at 100 Hz.
	zipf = 1.1
)

// newFleet makes a program with a number of contexts, always the same one.
func newFleet(contexts, perFile int) *fleet {
	rng := rand.New(rand.NewPCG(1, 2006))
	f := &fleet{perFile: perFile}
	for i := range functions {
		f.methods = append(f.methods, method(i))
	}
	calls := callGraph(rng)
	seen := make(map[string]bool, contexts)
	for len(f.contexts) < contexts {
		c := walk(rng, calls)
		if key := fmt.Sprint(c); !seen[key] {
			seen[key] = true
			f.contexts = append(f.contexts, c)
		}
	}
	return f
}

var (
	layers = []string{"internal/catalog", "internal/checkout", "pkg/transport", "pkg/storage", "internal/search", "vendor/codec"}
	nouns  = []string{"Index", "Session", "Encoder", "Request", "Cursor", "Shard", "Buffer", "Planner"}
	verbs  = []string{"Lookup", "Serve", "Encode", "flush", "Walk", "resolve", "appendTo", "compare", "Next"}
)

// method returns a method with a name of usual length: 50 to 70 bytes.
func method(i int) ccmap.Method {
	pkg := fmt.Sprintf("github.com/example/storefront/%s%d", layers[i%len(layers)], i%packages)
	receiver := fmt.Sprintf("%s%d", nouns[i%len(nouns)], i%types)
	return ccmap.Method{
		Name:      fmt.Sprintf("%s.(*%s).%s%d", pkg, receiver, verbs[i%len(verbs)], i),
		File:      fmt.Sprintf("/build/src/%s/file%d.go", pkg, i%types),
		StartLine: int32(10 + i*7%900),
		Module:    "c0ffee5eed0123456789abcdef0123456789abcd",
	}
}

// call is a call site and its callee.
type call struct {
	offset uint32
	callee int
}

// callGraph gives three of four methods one call, and the others up to eight.
func callGraph(rng *rand.Rand) [][]call {
	calls := make([][]call, functions)
	for i := range calls {
		n := 1
		if rng.IntN(4) == 0 {
			n += rng.IntN(8)
		}
		for range n {
			calls[i] = append(calls[i], call{uint32(1 + rng.IntN(60)), rng.IntN(functions)})
		}
	}
	return calls
}

// walk returns a stack: from a root down, the first calls of a method more often than its
// others.
func walk(rng *rand.Rand, calls [][]call) context {
	c := make(context, minDepth+rng.IntN(maxDepth-minDepth+1))
	at := rng.IntN(roots)
	for i := range c {
		next := calls[at][min(int(rng.ExpFloat64()*1.2), len(calls[at])-1)]
		c[i] = ccmap.Frame{Method: ccmap.FirstID + ccmap.MethodID(at), Offset: next.offset}
		at = next.callee
	}
	return c
}

// profile returns the profile of a machine.
func (f *fleet) profile(machine int) (*ccmap.Map, error) {
	rng := rand.New(rand.NewPCG(uint64(machine), 3))
	hot := rand.NewZipf(rng, zipf, 10, uint64(len(f.contexts)-1))
	m := ccmap.New(ccmap.Options{Seed: 1})
	for _, method := range f.methods {
		m.Names().Intern(method)
	}
	const interval = 10 * time.Millisecond
	met := make(map[uint64]bool, f.perFile)
	for samples := 0; len(met) < f.perFile; samples++ {
		if samples > 1000*f.perFile {
			return nil, fmt.Errorf("%d of %d contexts in %d samples: want more contexts", len(met), f.perFile, samples)
		}
		rank := hot.Uint64()
		met[rank] = true
		f.fold(m, rank, interval)
	}
	*m.Meta() = ccmap.Meta{
		Target:   ccmap.Target{PID: 1000 + machine, Executable: "/srv/storefront", BuildID: f.methods[0].Module, Runtime: "go1.26.8"},
		Engine:   "perf",
		Start:    time.Unix(1_790_000_000, 0).UTC(),
		Duration: 10 * time.Minute,
		Interval: []ccmap.IntervalChange{{Interval: interval, Reason: "initial"}},
	}
	return m, nil
}

// fold counts a sample of a context.
func (f *fleet) fold(m *ccmap.Map, rank uint64, interval time.Duration) {
	node, site := m.Root(), ccmap.NoOffset
	for _, frame := range f.contexts[rank] {
		node, site = m.Child(node, site, frame.Method), frame.Offset
	}
	m.Add(m.Child(node, site, ccmap.NoMethod), ccmap.Counters{Samples: 1, Time: int64(interval)})
}

// write writes the profiles of a number of machines, unless they exist.
func (f *fleet) write(dir string, files int) (paths []string, err error) {
	for i := range files {
		path := filepath.Join(dir, fmt.Sprintf("machine-%04d.pb.gz", i))
		paths = append(paths, path)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		m, err := f.profile(i)
		if err != nil {
			return nil, err
		}
		if err := export.WriteFile(path, m.Snapshot()); err != nil {
			return nil, err
		}
	}
	return paths, nil
}
