package perf

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCgo: stacks lead from C that keeps no frame pointers to main.main, over
// the C functions and the Go functions between, in programs of all Go versions.
func TestCgo(t *testing.T) {
	t.Parallel()
	for _, path := range goVersions(t, true) {
		t.Run(filepath.Base(path), func(t *testing.T) { sampleCgo(t, path) })
	}
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs a C compiler")
	}
	t.Run("this", func(t *testing.T) { sampleCgo(t, build(t, "cgoload")) })
}

func sampleCgo(t *testing.T, path string) {
	t.Parallel()
	for _, c := range []struct {
		mode string
		want []string // of every sample in the first of them, innermost first
	}{
		{"loop", []string{"spin", "outer", "runtime.cgocall", "main._Cfunc_outer", "main.loop", "main.main"}},
		{"sort", []string{"cCompare", "qsort_r", "sortByC", "runtime.cgocall", "main._Cfunc_sortByC", "main.sort", "main.main"}},
		{"back", []string{"main.goCompare", "runtime.cgocallback", "runtime.cgocall", "main._Cfunc_sortByGo", "main.back", "main.main"}},
		{"deep", []string{"outer", "main._Cfunc_outer", "main.goRecurse", "runtime.cgocallback", "recurse", "main._Cfunc_recurse",
			"main.goRecurse", "recurse", "main.goRecurse", "recurse", "main.deep", "main.main"}},
		{"asm", []string{"bare", "runtime.cgocall", "main._Cfunc_callBare", "main.bare", "main.main"}},
		{"thread", []string{"spin", "thread"}},
		{"thread", []string{"main.goWork", "runtime.cgocallback", "crosscall2", "goWork", "thread"}},
	} {
		t.Run(c.mode+"/"+c.want[0], func(t *testing.T) {
			t.Parallel()
			in := func(s *stackSample) bool { return inOrder(s.names, c.want[:1]) }
			sampleCalls(t, in, c.want, path, c.mode)
		})
	}
}

// TestRaceDetector: so do stacks from the race detector, which is C and is called
// for every access to memory. The function that has called it is not always found.
func TestRaceDetector(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs a C compiler")
	}
	in := func(s *stackSample) bool {
		return s.names[0] == "racecall" || strings.HasPrefix(s.names[0], "__tsan")
	}
	sampleCalls(t, in, []string{"main.walk", "main.main", "runtime.main"}, build(t, "cgoload", "-race"), "walk")
}

// sampleCalls samples a program until enough samples are in some functions, and
// wants their callers. A machine so busy that samples are old when they are taken costs
// some percent; an unwinder that loses its way costs most.
func sampleCalls(t *testing.T, in func(*stackSample) bool, want []string, path, mode string) {
	const (
		enough        = 20
		mostRuns      = 30 // of one second of CPU time each
		leastWhole    = 0.6
		mostTruncated = 0.3
	)
	var found, whole, truncated, all int
	for run := 0; found < enough && run < mostRuns; run++ {
		samples, _ := sampleWhole(t, Options{Interval: 2 * time.Millisecond}, path, mode)
		all += len(samples)
		for _, smp := range samples {
			if smp.Truncated {
				truncated++
			}
			if !in(&smp) {
				continue
			}
			found++
			if !smp.Truncated && inOrder(smp.names, want) {
				whole++
			} else {
				t.Logf("truncated %v: %v", smp.Truncated, smp.names)
			}
		}
	}
	t.Logf("%d of %d are whole; %d truncated of %d", whole, found, truncated, all)
	if found < enough || float64(whole) < leastWhole*float64(found) || float64(truncated) > mostTruncated*float64(all) {
		t.Errorf("want %d found, %g of them whole, and %g of all truncated at most", enough, leastWhole, mostTruncated)
	}
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
