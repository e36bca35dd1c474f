package enginetest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/kallsyms"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
)

// testKernelStacks: with names for them, the kernel's functions are frames between the innermost one and the Go
// function that has made the system call. Without, there is one frame of the kernel.
func testKernelStacks(t *testing.T, open Open) {
	t.Parallel()
	kernel, err := kallsyms.Read()
	if errors.Is(err, kallsyms.ErrHidden) {
		testrun.Lacks(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for title, names := range map[string]func(uint64) (string, bool){"asked for": kernel.Name, "not asked for": nil} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			if names == nil {
				testrun.Full(t, testrun.Minutes) // all other tests are of one frame
			}
			samples, s := open.SampleWhole(t, sampler.ProcessOptions{Interval: time.Millisecond, KernelNames: names}, Build(t, "workload"), "leaves", "300")
			if s.Info().NoKernelTime != "" {
				testrun.Lacks(t, "samples in the kernel: %s", s.Info().NoKernelTime)
			}
			reads, deep := 0, 0
			for _, smp := range samples {
				if smp.Names[0] != ccmap.KernelName || !smp.Has("syscall.Read") || !smp.Has("main.kernel") {
					continue
				}
				reads++
				if n := slices.IndexFunc(smp.Names, func(name string) bool { return name != ccmap.KernelName }); n > 1 && smp.Innermost.Signature != "" {
					deep++
				}
			}
			t.Logf("%d of %d", deep, reads)
			if reads == 0 || names == nil && deep > 0 || names != nil && float64(deep) < 0.8*float64(reads) {
				t.Errorf("of %d samples in read %d have the kernel's functions", reads, deep)
			}
		})
	}
}
