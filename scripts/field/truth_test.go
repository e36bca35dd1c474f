package main

import (
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

func TestSplitOf(t *testing.T) {
	t.Parallel()
	m, _, err := export.ReadFile("testdata/split.folded", export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	s := splitOf(m.Snapshot(), []string{"main.f1", "main.f2"})
	low, high := s.stated("main.f1")
	if low > 0.3 || high < 0.3 || high-low > 0.2 || math.Abs(s.independent("main.f1")-100) > 10 {
		t.Errorf("a share of 30 %% of 100 samples is stated as %v to %v, by %v samples", low, high, s.independent("main.f1"))
	}
	if s.samples != 100 || !near(s.part["main.f1"], 0.3) || !near(s.part["main.f2"], 0.6) || !near(s.preempt, 0.2) {
		t.Errorf("got %+v", s)
	}
	flat := splitOfSymbols([]string{"main.f1", "main.f2", "main.f2", "runtime.asyncPreempt.abi0"}, []string{"main.f1", "main.f2"})
	if flat.samples != 4 || !near(flat.part["main.f2"], 0.5) || !near(flat.preempt, 0.25) {
		t.Errorf("got %+v", flat)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

// splitOfCounts is the split of a profile that has so many samples in functions a, b and others.
func splitOfCounts(samples ...int64) split {
	m, names := ccmap.New(ccmap.Options{}), []string{"a", "b", "c"}
	for i, n := range samples {
		name := append(names, "other")[i]
		m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: name})), ccmap.Counters{Samples: n, Time: n})
	}
	return splitOf(m.Snapshot(), names)
}

func TestFarthest(t *testing.T) {
	t.Parallel()
	truth := truthOf([]string{"a", "b"}, []int{1, 3})
	name, points := split{part: map[string]float64{"a": 0.24, "b": 0.72}}.farthest(truth)
	if name != "b" || !near(points, -3) {
		t.Errorf("%s is off by %v points, want b by -3", name, points)
	}
}

func TestWithinPoints(t *testing.T) {
	t.Parallel()
	for samples, want := range map[int64]float64{20000: 1, 10000: 1, 2500: 2, 100: 10} {
		if got := withinPoints(samples); !near(got, want) {
			t.Errorf("of %d samples: %v points, want %v", samples, got, want)
		}
	}
}

func TestHottest(t *testing.T) {
	t.Parallel()
	var h hottests
	for _, samples := range [][]int64{{500, 300, 200}, {410, 400, 190}, {400, 410, 190}} {
		h.add(splitOfCounts(samples...))
	}
	if h.runs != 3 || h.ties != 2 || h.most() != 2 || h.by["a"] != 2 {
		t.Errorf("got %+v", h)
	}
}

// Nineteen of twenty intervals hold what a slowdown does, by chance, and few hold a wrong factor.
func TestSlowedCovers(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	factor := map[string]float64{"b": 2}
	draw := func(weights ...float64) split {
		const samples = 2000
		var sum float64
		for _, w := range weights {
			sum += w
		}
		counts := make([]int64, len(weights))
		for range samples {
			x := random.Float64() * sum
			for i, w := range weights {
				if x -= w; x < 0 {
					counts[i]++
					break
				}
			}
		}
		return splitOfCounts(counts...)
	}
	held, wrong, all := 0, 0, 0
	for range 500 {
		a := draw(1, 2, 3, 0.5)
		for _, f := range slowed(a, draw(1, 4, 3, 0.5), factor) {
			all, held = all+1, held+one(f.within())
		}
		for _, f := range slowed(a, draw(1, 3, 3, 0.5), factor) {
			wrong += one(f.within() && f.name == "b")
		}
	}
	if share := float64(held) / float64(all); share < 0.935 || share > 0.965 {
		t.Errorf("%.3f of the intervals hold the shares, want 0.95", share)
	}
	if wrong > 25 {
		t.Errorf("%d of 500 intervals hold a share with a wrong factor", wrong)
	}
}

// Each of the program's functions has a place for a loop.
func TestPutLoop(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/truths/functions.go")
	if err != nil {
		t.Fatal(err)
	}
	for function := range truthNames {
		text := putLoop(string(source), function+1, 25)
		if strings.Count(text, "range n * 25 / 100 {") != 1 {
			t.Errorf("no loop in f%d", function+1)
		}
	}
}

// Each of the Java program's methods has one, too.
func TestPutJavaLoop(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("testdata/truths/Truths.java")
	if err != nil {
		t.Fatal(err)
	}
	for method := range truthMethods {
		text := putJavaLoop(string(source), method+1, 25)
		if strings.Count(text, "n * 25L / 100") != 1 {
			t.Errorf("no loop in f%d", method+1)
		}
	}
}
