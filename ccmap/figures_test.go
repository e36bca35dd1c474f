package ccmap_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/testdata/recorded"
)

const figuresFile = "testdata/figures.json"

var update = flag.Bool("update", false, "write "+figuresFile+" anew")

// figures describe a map without a clock: they are the same on every machine, so only
// a change of the code changes one.
type figures map[string]float64

// allowed is the part of the recorded value that a figure may grow by before the test
// fails, where that is not 0: Go's allocator and maps differ between its versions, and
// under the race detector. These figures may also fall; all others must be equal.
var allowed = map[string]float64{
	"allocations while growing": 0.10,
	"allocations while pruning": 0.10,
	"bytes a node":              0.02,
}

// figureStreams are fixed sequences of samples, from seeded generators and from
// recordings, and the map that they go to.
var figureStreams = map[string]struct {
	samples func(*testing.T) (*ccmap.Names, []ccmap.Sample)
	options ccmap.Options
}{
	"200 stacks of depth 30-60": {samples: generated(func(g *callGraph) []ccmap.Sample { return g.stacks(200, 30, 60) })},
	"10,000 stacks of depth 60": {samples: generated(func(g *callGraph) []ccmap.Sample { return g.stacks(10_000, 60, 60) })},
	"10,000 correlated stacks":  {samples: generated(func(g *callGraph) []ccmap.Sample { return g.correlated(10_000, 60) })},
	"server, recorded":          {samples: replayed("server")},
	"compiler, recorded":        {samples: replayed("compiler")},
	"compiler, recorded, with a window": {
		samples: replayed("compiler"),
		options: ccmap.Options{Window: time.Second},
	},
	"compiler, recorded, with a window, in 1 MiB": {
		samples: replayed("compiler"),
		options: ccmap.Options{Window: time.Second, MaxBytes: 1 << 20},
	},
}

func generated(samples func(*callGraph) []ccmap.Sample) func(*testing.T) (*ccmap.Names, []ccmap.Sample) {
	return func(*testing.T) (*ccmap.Names, []ccmap.Sample) {
		g := newCallGraph(2000)
		return g.names, samples(g)
	}
}

func replayed(stream string) func(*testing.T) (*ccmap.Names, []ccmap.Sample) {
	return func(t *testing.T) (*ccmap.Names, []ccmap.Sample) {
		names := ccmap.NewNames()
		samples, err := recorded.Open(stream, names)
		if err != nil {
			t.Fatal(err)
		}
		return names, samples
	}
}

// TestFigures compares each stream's figures with the recorded ones.
func TestFigures(t *testing.T) {
	got := map[string]figures{}
	for name, stream := range figureStreams {
		o, samples := stream.options, []ccmap.Sample(nil)
		o.Names, samples = stream.samples(t)
		o.Seed = 1
		got[name] = measure(o, samples)
	}
	if *update {
		writeFigures(t, got)
	}
	want := readFigures(t)
	for _, stream := range slices.Sorted(maps.Keys(got)) {
		for _, name := range slices.Sorted(maps.Keys(got[stream])) {
			if err := compareFigure(name, got[stream][name], want[stream][name]); err != nil {
				t.Errorf("%s: %v", stream, err)
			}
		}
	}
	if t.Failed() {
		t.Log("if this is meant: go test ./ccmap -run TestFigures -update, and say why in the commit")
	}
}

// measure folds the samples into a new map, and a second time.
func measure(o ccmap.Options, samples []ccmap.Sample) figures {
	var m *ccmap.Map
	growing := testing.AllocsPerRun(1, func() {
		m = ccmap.New(o)
		m.FoldBatch(samples)
	})
	pruned := m.Meta().Pruned
	f := figures{
		"nodes":                     float64(m.Len()),
		"bytes a node":              rounded(float64(m.Bytes()) / float64(m.Len())),
		"table entries":             float64(m.TableEntries()),
		"allocations while growing": growing,
		"prunes":                    float64(pruned.Times),
		"nodes pruned":              float64(pruned.Nodes),
	}
	again := func() float64 { return testing.AllocsPerRun(1, func() { m.FoldBatch(samples) }) }
	if pruned.Times > 0 { // then the map has forgotten some of the stacks
		f["allocations while pruning"] = again()
	} else {
		f["allocations folding again"] = least(again)
		f["probes a stack"] = rounded(float64(probes(m, samples)) / float64(len(samples)))
	}
	return f
}

// least returns the least of some figures. AllocsPerRun counts what the whole process allocates, so
// on a busy machine the runtime's own allocations come between.
func least(figure func() float64) float64 {
	const tries = 10
	f := figure()
	for i := 1; i < tries && f > 0; i++ {
		f = min(f, figure())
	}
	return f
}

// probes returns how many slots of the map's table all the samples look at, each
// walked from the root.
func probes(m *ccmap.Map, samples []ccmap.Sample) int {
	truncated := m.Names().Intern(ccmap.Method{Name: ccmap.TruncatedName})
	n := 0
	for i := range samples {
		stack := samples[i].Frames
		if samples[i].Truncated {
			stack = append(slices.Clip(stack), ccmap.Frame{Method: truncated, Offset: ccmap.NoOffset})
		}
		n += m.Probes(stack)
	}
	return n
}

// rounded keeps four decimals, as in the file.
func rounded(v float64) float64 { return math.Round(v*1e4) / 1e4 }

func compareFigure(name string, got, want float64) error {
	slack, isBound := allowed[name]
	if got == want || isBound && got <= want*(1+slack) {
		return nil
	}
	bound := ""
	if isBound {
		bound = fmt.Sprintf(", at most +%.0f %% allowed", 100*slack)
	}
	return fmt.Errorf("%s: %v, recorded %v (%+.2f %%%s)", name, got, want, 100*(got-want)/want, bound)
}

// TestCompareFigure checks which differences pass, and that the message names the
// figure and the difference.
func TestCompareFigure(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name      string
		got, want float64
		message   string
	}{
		{"nodes", 100, 100, ""},
		{"nodes", 99, 100, "nodes: 99, recorded 100 (-1.00 %)"},
		{"bytes a node", 50, 100, ""},
		{"bytes a node", 101, 100, ""},
		{"bytes a node", 103, 100, "bytes a node: 103, recorded 100 (+3.00 %, at most +2 % allowed)"},
	} {
		message := ""
		if err := compareFigure(test.name, test.got, test.want); err != nil {
			message = err.Error()
		}
		if message != test.message {
			t.Errorf("%s of %v is said to be %q, want %q", test.name, test.got, message, test.message)
		}
	}
}

func readFigures(t *testing.T) map[string]figures {
	t.Helper()
	text, err := os.ReadFile(figuresFile)
	if err != nil {
		t.Fatal(err)
	}
	var f map[string]figures
	if err := json.Unmarshal(text, &f); err != nil {
		t.Fatalf("read %s: %v", figuresFile, err)
	}
	return f
}

func writeFigures(t *testing.T, f map[string]figures) {
	t.Helper()
	text, err := json.MarshalIndent(f, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(figuresFile, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
