package perf

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler/gosym"
	"golang.org/x/sys/unix"
)

// eachSample hands the decoded samples of a source to f, instead of Run, until
// the target ends.
func eachSample(t *testing.T, s *Source, f func(*perfevent.Sample)) {
	t.Helper()
	d := s.drainer
	for {
		exited, err := d.waiter.Wait(time.Second)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range d.rings {
			r.Refresh()
		}
		for r := d.earliest(); r != nil; r = d.earliest() {
			if r.Next.Kind == unix.PERF_RECORD_SAMPLE {
				if err := d.sample.Decode(r.Next.Misc, r.Next.Body); err != nil {
					t.Fatal(err)
				}
				f(&d.sample)
			} else if err := d.record(context.Background(), r); err != nil {
				t.Fatal(err)
			}
			r.Advance()
			r.Release()
		}
		if exited {
			return
		}
	}
}

// TestRepairEqualsWalk compares the two ways to unwind: the kernel's frame
// pointer walk with its first caller repaired, and SP deltas from the innermost
// function to the root.
func TestRepairEqualsWalk(t *testing.T) {
	t.Parallel()
	g := start(t, build(t, "workload"), "busy", "1200")
	s, _ := attach(t, g.pid(), Options{Interval: time.Millisecond, Watchpoints: -1})
	defer s.Close()
	g.proceed(t)
	u := &s.drainer.taker.unwinder
	var compared, equal, repaired int
	eachSample(t, s, func(smp *perfevent.Sample) {
		top := u.code.at(smp.Regs.IP)
		if !smp.HasRegs || top.kind != gosym.KindGo {
			return
		}
		dump := stackView{base: smp.Regs.SP, bytes: smp.Stack}
		walked, end := u.unwindDump(smp.Regs.IP, smp.Regs.SP, dump, nil)
		if end != endAtRoot {
			return
		}
		var st stack
		u.repair(smp, top, dump, &st)
		if u.interrupted(st.pcs) {
			return // unwind walks those
		}
		u.cutAtRoot(&st)
		compared++
		if st.repaired {
			repaired++
		}
		if slices.Equal(st.pcs, walked) {
			equal++
		} else {
			t.Logf("repaired %#x\nwalked   %#x", st.pcs, walked)
		}
	})
	t.Logf("%d of %d chains equal, %d repaired", equal, compared, repaired)
	if compared < 100 || float64(equal) < 0.999*float64(compared) {
		t.Errorf("%d of %d repaired chains equal the walk", equal, compared)
	}
}
