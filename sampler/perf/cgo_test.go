package perf

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestCgo: stacks lead from C that keeps no frame pointers to main.main, over
// the C functions and the Go functions between. The bounds leave room for a machine
// so busy that samples are old when they are taken.
func TestCgo(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs a C compiler")
	}
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
			samples, s := sampleWhole(t, Options{Interval: 2 * time.Millisecond}, build(t, "cgoload"), c.mode)
			var found, whole, truncated int
			for _, smp := range samples {
				if smp.Truncated {
					truncated++
					t.Logf("truncated: %v", smp.names)
				}
				if !inOrder(smp.names, c.want[:1]) {
					continue
				}
				found++
				if !smp.Truncated && inOrder(smp.names, c.want) {
					whole++
				} else if !smp.Truncated {
					t.Logf("not all there: %v", smp.names)
				}
			}
			t.Logf("%d of %d are whole; %d truncated of %d", whole, found, truncated, len(samples))
			if found < 3 || float64(whole) < 0.9*float64(found) || float64(truncated) > 0.04*float64(len(samples)) {
				t.Errorf("%+v", s.Stats())
			}
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
	samples, s := sampleWhole(t, Options{Interval: 2 * time.Millisecond}, build(t, "cgoload", "-race"), "walk")
	var inC, whole int
	for _, smp := range samples {
		if smp.names[0] != "racecall" && !strings.HasPrefix(smp.names[0], "__tsan") {
			continue
		}
		inC++
		if !smp.Truncated && inOrder(smp.names, []string{"main.walk", "main.main", "runtime.main"}) {
			whole++
		} else {
			t.Logf("truncated %v: %v", smp.Truncated, smp.names)
		}
	}
	t.Logf("%d of %d are whole", whole, inC)
	if inC < 3 || float64(whole) < 0.75*float64(inC) {
		t.Errorf("%+v", s.Stats())
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
