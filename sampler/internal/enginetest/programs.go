package enginetest

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
)

// testCgo: stacks lead from C that keeps no frame pointers to main.main, over
// the C functions and the Go functions between, in programs of all Go versions.
func testCgo(t *testing.T, open Open) {
	t.Parallel()
	for _, path := range goVersions(t, true) {
		t.Run(filepath.Base(path), func(t *testing.T) { sampleCgo(t, open, path) })
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		testrun.Lacks(t, "no C compiler: install gcc and libc6-dev")
	}
	t.Run("this", func(t *testing.T) { sampleCgo(t, open, Build(t, "cgoload")) })
}

// sampleCgo samples C at short intervals, which find the thread of sysmon, too.
func sampleCgo(t *testing.T, open Open, path string) {
	t.Parallel()
	for _, c := range []struct {
		modes []string
		wants [][]string // each of every sample in the first of them, innermost first
	}{
		{[]string{"loop", "sort", "back", "deep", "asm"}, [][]string{
			{"spin", "outer", "runtime.cgocall", "main._Cfunc_outer", "main.loop", "main.main"},
			{"cCompare", "qsort_r", "sortByC", "runtime.cgocall", "main._Cfunc_sortByC", "main.sort", "main.main"},
			{"main.goCompare", "runtime.cgocallback", "runtime.cgocall", "main._Cfunc_sortByGo", "main.back", "main.main"},
			{"deepest", "main._Cfunc_deepest", "main.goRecurse", "runtime.cgocallback", "recurse", "main._Cfunc_recurse",
				"main.goRecurse", "recurse", "main.goRecurse", "recurse", "main.deep", "main.main"},
			{"bare", "runtime.cgocall", "main._Cfunc_callBare", "main.bare", "main.main"},
			{"runtime.mstart1", "runtime.mstart0", "runtime.mstart"},
		}},
		{[]string{"thread"}, [][]string{
			{"spin", "thread"},
			{"main.goWork", "runtime.cgocallback", "crosscall2", "goWork", "thread"},
		}},
	} {
		t.Run(strings.Join(c.modes, ","), func(t *testing.T) {
			t.Parallel()
			var wanted []*calls
			for _, want := range c.wants {
				in := func(s *Sample) bool { return inOrder(s.Names, want[:1]) }
				wanted = append(wanted, &calls{in: in, want: want, leastWhole: 0.6})
			}
			sampleCalls(t, open, 250*time.Microsecond, wanted, path, c.modes...)
		})
	}
}

// testRaceDetector: so do stacks from the race detector, which is C and is called
// for every access to memory. An engine that reads the goroutine's stack after the sample
// finds the detector's caller only if that function has not returned in the meantime.
func testRaceDetector(t *testing.T, open Open, leastWhole float64) {
	t.Parallel()
	testrun.Full(t, testrun.Minutes) // to compile the standard library for the race detector
	if _, err := exec.LookPath("gcc"); err != nil {
		testrun.Lacks(t, "no C compiler: install gcc and libc6-dev")
	}
	walk := &calls{want: []string{"main.walk", "main.main", "runtime.main"}, leastWhole: leastWhole}
	walk.in = func(s *Sample) bool {
		return s.Names[0] == "racecall" || strings.HasPrefix(s.Names[0], "__tsan")
	}
	sampleCalls(t, open, 2*time.Millisecond, []*calls{walk}, Build(t, "cgoload", "-race"), "walk")
}

// calls are the samples in some functions. A share of them must have all callers.
type calls struct {
	in         func(*Sample) bool
	want       []string // the callers, innermost first
	leastWhole float64

	found, whole int
}

// add counts a sample.
func (c *calls) add(t *testing.T, s *Sample) {
	t.Helper()
	if !c.in(s) {
		return
	}
	c.found++
	if !s.Truncated && inOrder(s.Names, c.want) {
		c.whole++
	} else if c.found-c.whole <= mostLogged {
		t.Logf("truncated %v: %v", s.Truncated, s.Names)
	}
}

const (
	enoughCalls = 20
	// tries is how often a program is sampled for a result. Where the machine is so busy that samples are taken when the
	// function has returned, or the program has ended, one try says nothing. An unwinder that loses its way does so in all.
	tries      = 4
	mostLogged = 10
)

// sampleCalls samples a program until enough samples are in the functions of each wanted, and then wants their callers.
func sampleCalls(t *testing.T, open Open, interval time.Duration, wanted []*calls, path string, modes ...string) {
	attempt(t, func() (miss string) {
		for _, c := range wanted {
			c.found, c.whole = 0, 0
		}
		return callsIn(t, open, interval, wanted, path, modes...)
	})
}

// attempt wants a try without a miss.
func attempt(t *testing.T, try func() (miss string)) {
	t.Helper()
	misses := make([]string, tries)
	for i := range misses {
		if misses[i] = try(); misses[i] == "" {
			return
		}
	}
	t.Errorf("each of %d tries missed:\n%s", tries, strings.Join(misses, "\n"))
}

// callsIn is a try of sampleCalls.
func callsIn(t *testing.T, open Open, interval time.Duration, wanted []*calls, path string, modes ...string) (miss string) {
	const (
		mostRuns      = 100 // of 0.1 s of CPU time each mode, or more
		mostTruncated = 0.3
	)
	tooFew := func(c *calls) bool { return c.found < enoughCalls }
	var truncated, all int
	for run := 0; slices.ContainsFunc(wanted, tooFew) && run < mostRuns; run++ {
		samples, _ := open.SampleWhole(t, sampler.ProcessOptions{Interval: interval}, path, modes...)
		all += len(samples)
		for _, smp := range samples {
			if smp.Truncated {
				truncated++
			}
			for _, c := range wanted {
				c.add(t, &smp)
			}
		}
	}
	for _, c := range wanted {
		t.Logf("%d of %d in %s are whole", c.whole, c.found, c.want[0])
		if tooFew(c) || float64(c.whole) < c.leastWhole*float64(c.found) {
			miss += fmt.Sprintf("%d of %s found, %d of them whole: want %d, and %g of them; ", c.found, c.want[0], c.whole, enoughCalls, c.leastWhole)
		}
	}
	t.Logf("%d truncated of %d", truncated, all)
	if float64(truncated) > mostTruncated*float64(all) {
		miss += fmt.Sprintf("%d of %d truncated: want %g at most", truncated, all, mostTruncated)
	}
	return miss
}

// inOrder says whether names has all of want, in that order.
func inOrder(names, want []string) bool {
	for _, w := range want {
		i := slices.IndexFunc(names, func(n string) bool { return n == w || strings.HasPrefix(n, w+".") })
		if i < 0 {
			return false
		}
		names = names[i+1:]
	}
	return true
}

// goVersions returns the programs that all supported Go versions have built: the
// files that the pattern in CCMAPD_GO_VERSIONS matches. Those whose names end in -cgo
// are for testCgo. To make one of each, in the folder testdata/versions:
//
//	GOTOOLCHAIN=go1.27.0 go build -o /tmp/versions/go1.27.0 main.go
//
// and, in a copy of testdata/cgoload that has a go.mod which says go 1.18:
//
//	GOTOOLCHAIN=go1.27.0 CGO_ENABLED=1 go build -o /tmp/versions/go1.27.0-cgo .
func goVersions(t *testing.T, cgo bool) []string {
	t.Helper()
	files, err := filepath.Glob(os.Getenv("CCMAPD_GO_VERSIONS"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(files, func(path string) bool { return strings.HasSuffix(path, "-cgo") != cgo })
}

// testGoVersions samples them. Last run with the last releases of Go 1.18 to 1.27, of
// 1.18, 1.19, 1.20 and 1.27 also with -buildmode=pie -ldflags="-s -w".
func testGoVersions(t *testing.T, open Open) {
	files := goVersions(t, false)
	if len(files) == 0 {
		t.Skip("CCMAPD_GO_VERSIONS matches no file")
	}
	for _, path := range files {
		t.Run(filepath.Base(path), func(t *testing.T) { sampleVersion(t, open, path) })
	}
}

// sampleVersion wants whole stacks of known functions, in known goroutines.
func sampleVersion(t *testing.T, open Open, path string) {
	attempt(t, func() (miss string) { return versionIn(t, open, path) })
}

// versionIn is a try of sampleVersion.
func versionIn(t *testing.T, open Open, path string) (miss string) {
	samples, s := open.SampleWhole(t, sampler.ProcessOptions{Interval: 500 * time.Microsecond}, path)
	var rounds, unknown, truncated, goroutines int
	for _, smp := range samples {
		if smp.Has(ccmap.UnknownName) {
			unknown++
		}
		if smp.Truncated {
			truncated++
		}
		if smp.Has("main.round") {
			rounds++
			if smp.Goroutine != 0 {
				goroutines++
			}
		}
	}
	all := len(samples)
	t.Logf("%s: %d samples, %d unknown, %d truncated, %d in rounds, %d of them of a known goroutine",
		s.Info().Target.Runtime, all, unknown, truncated, rounds, goroutines)
	// Engine perf truncates stacks that are caught while they grow: 0.6 to 2.1 %.
	if unknown > all/100 || truncated > all*4/100 {
		miss += fmt.Sprintf("%d unknown and %d truncated of %d samples, want 1 %% and 4 %% at most; ", unknown, truncated, all)
	}
	if rounds < all/2 || goroutines < rounds*95/100 {
		miss += fmt.Sprintf("%d of %d samples are in main.round, %d of a known goroutine; ", rounds, all, goroutines)
	}
	return miss + labelMiss(samples)
}

// labelMiss wants labels of nearly all samples in main.round. On a busy machine the last ones are taken from the ring
// when the program, whose memory has the labels, has ended.
func labelMiss(samples []Sample) (miss string) {
	rounds, labelled, read, last := 0, 0, 0, 0
	for i, smp := range samples {
		if !smp.Has("main.round") {
			continue
		}
		rounds++
		if _, ok := workerOf(smp); ok {
			labelled++
			read, last = rounds, i
		}
	}
	if labelled == 0 || labelled < read*95/100 || last < len(samples)*4/5 {
		return fmt.Sprintf("%d of %d samples in main.round have labels, the last one is %d of %d", labelled, rounds, last, len(samples))
	}
	return ""
}

// workerOf returns the kind of the worker of a sample, if its labels are a worker's.
func workerOf(s Sample) (kind string, ok bool) {
	labels := s.Labels.Labels()
	worker, _ := ccmap.Value(labels, "worker")
	kind, _ = ccmap.Value(labels, "kind")
	want := "heavy"
	if worker == "1" {
		want = "light"
	}
	return kind, len(labels) == 2 && kind == want && len(worker) == 1 && worker >= "1" && worker <= "4"
}

// testLabels compares the shares of labels with the shares that runtime/pprof finds in the
// same run, and samples without labels.
func testLabels(t *testing.T, open Open) {
	t.Parallel()
	program, judge := Build(t, "versions"), filepath.Join(t.TempDir(), "cpu.pb.gz")
	samples, _ := open.SampleWhole(t, sampler.ProcessOptions{Interval: time.Millisecond}, program, judge)
	if miss := labelMiss(samples); miss != "" {
		t.Error(miss)
	}
	var all, light time.Duration
	for _, s := range samples {
		kind, ok := workerOf(s)
		if !ok || !s.Has("main.round") {
			continue
		}
		if all += time.Duration(s.Weight); kind == "light" {
			light += time.Duration(s.Weight)
		}
	}
	wantLight, wantAll := judged(t, judge)
	share, want := float64(light)/float64(all), float64(wantLight)/float64(wantAll)
	t.Logf("light: %.1f %% of %v, by runtime/pprof %.1f %% of %v", 100*share, all, 100*want, time.Duration(wantAll))
	if wantAll == 0 || math.Abs(share-want) > 0.2 {
		t.Errorf("the light worker has a share of %.2f, by runtime/pprof %.2f", share, want)
	}
	samples, _ = open.SampleWhole(t, sampler.ProcessOptions{Interval: time.Millisecond, NoLabels: true}, program)
	for _, s := range samples {
		if s.Has(ccmap.LabelsName) {
			t.Fatalf("a sample has labels: %v", s.Names)
		}
	}
}

// judged returns the time of the light worker, and of all workers, by a CPU profile of
// runtime/pprof.
func judged(t *testing.T, path string) (light, all int64) {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range p.Sample {
		if s.HasLabel("kind", "light") {
			light += s.Value[1]
		}
		if s.Label["kind"] != nil {
			all += s.Value[1]
		}
	}
	return light, all
}
