package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/budget"
	"github.com/ccmapd/ccmapd/internal/daemon/config"
)

// BenchmarkScan is a look at the processes of this machine, none of them new, as it happens once a second.
// The metric is CPU time.
func BenchmarkScan(b *testing.B) {
	v := newDiscovery(machine{}, nil, nil)
	now := time.Now()
	none := func(int) bool { return false }
	_, exist, err := v.scan(now, none)
	if err != nil {
		b.Fatal(err)
	}
	began := budget.ProcessCPU()
	for b.Loop() {
		if _, _, err := v.scan(now, none); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(budget.ProcessCPU()-began)/float64(b.N)/float64(len(exist)), "cpu-ns/process")
}

// BenchmarkLook is the first look at a process. The metric is CPU time.
func BenchmarkLook(b *testing.B) {
	v := newDiscovery(machine{}, nil, nil)
	looks, began := 0, budget.ProcessCPU()
	for b.Loop() {
		v.lookAgain(allProcesses)
		_, exist, err := v.scan(time.Now(), func(int) bool { return false })
		if err != nil {
			b.Fatal(err)
		}
		looks += len(exist)
	}
	b.ReportMetric(float64(budget.ProcessCPU()-began)/float64(looks), "cpu-ns/process")
}

// BenchmarkReload loads a configuration with one changed target.
func BenchmarkReload(b *testing.B) {
	for _, targets := range []int{10, 200} {
		b.Run(fmt.Sprintf("targets=%d", targets), func(b *testing.B) {
			c := config.Default()
			for i := range targets {
				c.Targets = append(c.Targets, config.Target{
					Name: fmt.Sprintf("t%d", i), Match: config.Match{Exe: fmt.Sprintf("/srv/*/t%d", i), Cmdline: `-addr :80\d\d`}, Settings: c.Defaults,
				})
			}
			d, err := newDaemon(Options{Load: func() (*config.Config, error) { return c, nil }}, newFakeHost())
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				next := *c
				next.Targets = append([]config.Target(nil), c.Targets...)
				next.Targets[0].Interval += time.Millisecond
				c = &next
				if err := d.Reload(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
