package bpf

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// TestWholeSharesRings: programs of the whole host have no ring each, however many there are.
func TestWholeSharesRings(t *testing.T) {
	t.Parallel()
	path := enginetest.Build(t, "workload")
	programs := min(runtime.NumCPU(), mostRings) + 2
	for range programs {
		enginetest.Start(t, path, "busy", "60000").Proceed(t)
	}
	r := runWhole(t, openHost(t), programs)
	for open := 0; open < programs; time.Sleep(10 * time.Millisecond) {
		r.await(t, "main.", "[process workload]")
		r.programs.mu.Lock()
		open = r.programs.open
		r.programs.mu.Unlock()
	}
	if got := r.sink.Queue.Stats().Rings; got >= programs {
		t.Errorf("%d programs have %d rings", programs, got)
	}
}

// TestWholeFitsItsMemory: programs beyond the memory for their symbols are closed. The profile has their time, and
// says why it has no stacks.
func TestWholeFitsItsMemory(t *testing.T) {
	t.Parallel()
	enginetest.Start(t, enginetest.Build(t, "workload"), "busy", "60000").Proceed(t)
	h := openHost(t)
	r := &wholeRun{sink: sampler.Sink{Queue: queue.New(queue.Options{RingWords: 1 << 20}), Names: ccmap.NewNames()}}
	r.open(t, h, WholeOptions{MaxPrograms: 100, MaxBytes: func() int64 { return 1 }})
	r.await(t, ccmap.UnknownName, "[process workload]")
	if got := r.Stats().Warning; !strings.Contains(got, "no memory for their symbols") {
		t.Errorf("it warns %q", got)
	}
}

// TestLeastUsefulProgram: the program without samples for the longest is closed first. Of programs that all had
// samples lately it is the one that was opened last.
func TestLeastUsefulProgram(t *testing.T) {
	t.Parallel()
	now := time.Now()
	p := &programs{known: make(map[programKey]*program), options: WholeOptions{MaxBytes: func() int64 { return 250 }}}
	add := func(pid uint32, sampled, opened time.Duration, f footprint) *program {
		one := &program{key: programKey{pid: pid}, member: new(Source), opened: now.Add(-opened), stop: func() {}}
		one.member.takes.Store(&f)
		one.member.sampled.Store(now.Add(-sampled).UnixNano())
		p.known[one.key] = one
		return one
	}
	closed := func() (pids string) {
		for pid := range uint32(10) {
			if one := p.known[programKey{pid: pid}]; one != nil && one.closing {
				pids += fmt.Sprint(pid)
			}
		}
		return pids
	}
	add(1, time.Second, time.Hour, footprint{50, 100, "a"})
	add(2, 2*time.Second, time.Minute, footprint{0, 100, "a"})
	if p.fit(now); closed() != "" || p.bytes() != 150 {
		t.Errorf("%d bytes fit, and %s was closed", p.bytes(), closed())
	}
	add(3, time.Minute, time.Hour, footprint{50, 0, "b"})
	add(4, time.Hour, time.Hour, footprint{50, 50, "a"})
	if p.fit(now); closed() != "4" || p.poor != 0 {
		t.Errorf("closed %s, and %d were told", closed(), p.poor)
	}
	if add(5, time.Second, time.Second, footprint{100, 50, ""}); p.hasRoom(now) || closed() != "34" {
		t.Errorf("%d bytes are taken, closed %s", p.bytes(), closed())
	}
	if p.fit(now); closed() != "345" || p.poor != 1 {
		t.Errorf("closed %s, and %d were told", closed(), p.poor)
	}
}
