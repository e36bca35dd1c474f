package hub

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// behaviour is how often a program is in each of its methods.
type behaviour map[string]float64

// window returns samples of a program that behaves so: a method that main.serve calls from two places.
func (h behaviour) window(r *rand.Rand, samples int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	method := func(name string) ccmap.MethodID {
		return m.Names().Intern(ccmap.Method{Name: name, File: "main.go", StartLine: 1})
	}
	var names []string
	all := 0.0
	for name, weight := range h {
		names, all = append(names, name), all+weight
	}
	slices.Sort(names)
	for range samples {
		at, i := r.Float64()*all, 0
		for ; i < len(names)-1 && at >= h[names[i]]; i++ {
			at -= h[names[i]]
		}
		frames := []ccmap.Frame{{Method: method("main.main")}, {Method: method("main.serve")}, {Method: method(names[i]), Offset: uint32(r.IntN(2))}}
		slices.Reverse(frames)
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: 1})
	}
	return m.Snapshot()
}

// usual is a program with 30 methods, the first ones hotter.
func usual() behaviour {
	h := make(behaviour)
	for i := range 30 {
		h[fmt.Sprintf("main.m%02d", i)] = 1 / float64(i+3)
	}
	return h
}

// with returns a behaviour with so many points more in a method.
func (h behaviour) with(method string, points float64) behaviour {
	all := 0.0
	for _, w := range h {
		all += w
	}
	other := make(behaviour)
	for name, w := range h {
		other[name] = w * (100 - points) / 100
	}
	other[method] += all * points / 100
	return other
}

// hours sends a window of each instance each hour, and merges.
type hours struct {
	t    *testing.T
	b    *memory
	a    *aggregator
	r    *rand.Rand
	n    int // hours so far
	seqs map[int]uint64
	all  []sent
}

func newHours(t *testing.T, seed uint64) *hours {
	b := newMemory()
	return &hours{t: t, b: b, a: testAggregator(b), r: rand.New(rand.NewPCG(seed, 0)), seqs: map[int]uint64{}}
}

// pass has an hour pass, in which each instance of the list sends one window, in any order.
func (h *hours) pass(samples int, behaves []behaviour) {
	h.t.Helper()
	at := start.Add(time.Duration(h.n) * time.Hour)
	h.n++
	var list []sent
	for i, is := range behaves {
		h.seqs[i]++
		k := testKey("web", i, h.seqs[i])
		k.From, k.To = at, at.Add(10*time.Minute)
		list = append(list, newSent(h.t, k, is.window(h.r, samples)))
	}
	h.r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	h.all = append(h.all, list...)
	putSegmentAt(h.t, h.b, at, list...)
	h.a.now = func() time.Time { return at }
	if err := h.a.round(h.t.Context()); err != nil {
		h.t.Fatal(err)
	}
}

func (h *hours) manifest() *manifest { return manifestOf(h.t, h.b, h.all[0]) }

// TestClasses: instances of three behaviours come to three classes, from their first window on, and best is of the
// largest one alone.
func TestClasses(t *testing.T) {
	t.Parallel()
	h := newHours(t, 21)
	kinds := []behaviour{usual(), usual().with("main.gzip", 40), usual().with("main.json", 30)}
	var fleet []behaviour
	of := func(i int) int { return []int{0, 0, 1, 0, 2, 0}[i%6] }
	for i := range 24 {
		fleet = append(fleet, kinds[of(i)])
	}
	for range 2 {
		h.pass(400, fleet)
	}
	m := h.manifest()
	classes := make(map[int]int)
	for i := range fleet {
		class := m.Instances[testKey("web", i, 1).Instance].Class
		if was, known := classes[of(i)]; known && was != class {
			t.Errorf("instance %d of behaviour %d is of class %d, others of %d", i, of(i), class, was)
		}
		classes[of(i)] = class
	}
	if len(m.classes()) != 3 || classes[0] == classes[1] || classes[1] == classes[2] || classes[0] == classes[2] {
		t.Errorf("%d classes: %v", len(m.classes()), classes)
	}
	if main := largest(m.members()); main != classes[0] {
		t.Errorf("the largest class is %d, want %d", main, classes[0])
	}
	for kind, class := range classes {
		want := ccmap.New(ccmap.Options{})
		for _, s := range h.all {
			var i int
			fmt.Sscanf(s.Instance, "%x", &i)
			if of(i) == kind {
				if err := want.Merge(s.profile); err != nil {
					t.Fatal(err)
				}
			}
		}
		is, err := readPart(t.Context(), h.b, *m.part(partKey{Level: levelBuild, Class: class}))
		if err != nil {
			t.Fatal(err)
		}
		if bytesOf(t, is.Map) != bytesOf(t, want) {
			t.Errorf("class %d is not the offline merge of behaviour %d", class, kind)
		}
	}
	checkSums(t, h.b, h.all)
	list, err := classesOf(t.Context(), newCatalog(h.b), m)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range list {
		if k.LeftOut == nil || k.LeftOut.Overlap < 80 || len(k.Overlaps) != 2 || k.Overlaps[0].Verdict != "differs" {
			t.Errorf("class %+v", k)
		}
	}
	if len(m.Outliers) != 0 {
		t.Errorf("after two looks there are outliers: %v", m.Outliers)
	}
}

// TestOutlier: an instance that differs three looks running is an outlier, which the event explains; it is none when it
// agrees again. A behaviour that a quarter has is none.
func TestOutlier(t *testing.T) {
	t.Parallel()
	for _, points := range []float64{12, 40} { // within its class, and founding one
		h := newHours(t, 22)
		fleet := slices.Repeat([]behaviour{usual()}, 16)
		for i := range 4 {
			fleet[i] = usual().with("main.json", 45)
		}
		fleet[7] = usual().with("main.gzip", points)
		for range oddLooks - 1 {
			h.pass(1500, fleet)
		}
		if m := h.manifest(); len(m.Outliers) > 0 {
			t.Errorf("%g points: an outlier after %d looks: %v", points, oddLooks-1, m.Outliers)
		}
		h.pass(1500, fleet)
		h.pass(1500, fleet)
		m := h.manifest()
		if len(m.Outliers) != 1 || m.Outliers[0].Instance != testKey("web", 7, 1).Instance {
			t.Fatalf("%g points: outliers %v", points, m.Outliers)
		}
		o := m.Outliers[0]
		off := o.Points - points
		if o.Method != "main.gzip" || max(off, -off) > 4*o.Error || o.Error > 2 || o.Others != 11 || o.Last.Sub(o.Since) != time.Hour {
			t.Errorf("%g points: outlier %+v", points, o)
		}
		if text := o.String(); !strings.Contains(text, "differs from 11 others") || !strings.Contains(text, "points in main.gzip") {
			t.Error(text)
		}
		fleet[7] = usual()
		h.pass(1500, fleet)
		if m := h.manifest(); len(m.Outliers) > 0 || m.Instances[testKey("web", 7, 1).Instance].Class != largest(m.members()) {
			t.Errorf("%g points: it still is an outlier: %v", points, m.Outliers)
		}
		checkSums(t, h.b, h.all)
	}
}

// TestFalseAlarms counts the looks at which an instance of one behaviour is odd by chance: at most 3 of 200, so that
// three running are 3 in a million.
func TestFalseAlarms(t *testing.T) {
	t.Parallel()
	const instances, rounds = 20, 6
	h := newHours(t, 23)
	fleet := slices.Repeat([]behaviour{usual()}, instances)
	odd := 0
	for range rounds {
		h.pass(300, fleet)
		for _, i := range h.manifest().Instances {
			if i.Odd > 0 {
				odd++ // an alarm that lasts counts each hour
			}
		}
	}
	m := h.manifest()
	t.Logf("%d of %d looks found a difference", odd, instances*rounds)
	if odd > 4 || len(m.Outliers) > 0 || len(m.classes()) != 1 {
		t.Errorf("%d of %d looks found a difference; outliers %v; %d classes", odd, instances*rounds, m.Outliers, len(m.classes()))
	}
}
