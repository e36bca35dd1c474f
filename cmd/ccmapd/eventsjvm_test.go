package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// TestEventsOfJVM holds the allocations and waits that a JVM's recorder tells against the
// program's own counts.
func TestEventsOfJVM(t *testing.T) {
	if testing.Short() {
		t.Skip("samples JVMs for seconds")
	}
	t.Parallel()
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, nil, "Events")
			checkAllocations(t, jvm)
			checkWaits(t, jvm)
			checkRefusals(t, jvm)
			if list := recordingsOf(t, jvm.PID); strings.Contains(list, "name=ccmapd-") {
				t.Errorf("a recording is left: %s", list)
			}
		})
	}
}

// eventsTruth is what the program says.
type eventsTruth struct{ big, small, waits, waited int64 }

func askEvents(t *testing.T, jvm *jvmtest.JVM) (truth eventsTruth) {
	t.Helper()
	jvm.Tell(t, "")
	const counts = "counts " // JDK 17 without a log writes commands of its recorder there
	for more := true; more; more = !strings.HasPrefix(jvm.Out.Text(), counts) {
		if !jvm.Out.Scan() {
			t.Fatal("the program is gone")
		}
	}
	if _, err := fmt.Sscan(strings.TrimPrefix(jvm.Out.Text(), counts), &truth.big, &truth.small, &truth.waits, &truth.waited); err != nil {
		t.Fatal(err)
	}
	return truth
}

// eventsSession is a session with what the program had counted before and after it, and while it
// certainly sampled.
type eventsSession struct {
	*ccmap.Snapshot
	before, from, to, after eventsTruth
}

// sampleEvents samples an event until the program has done enough.
func sampleEvents(t *testing.T, jvm *jvmtest.JVM, event string, enough func(from, to eventsTruth) bool) (s eventsSession) {
	t.Helper()
	file := filepath.Join(t.TempDir(), event+".json")
	s.before = askEvents(t, jvm)
	a := attachTo(t, strconv.Itoa(jvm.PID), "--engine", "jfr", "--event", event, "-o", file)
	s.from = askEvents(t, jvm)
	for s.to = s.from; !enough(s.from, s.to); s.to = askEvents(t, jvm) {
		time.Sleep(10 * time.Millisecond)
	}
	s.Snapshot = a.interrupt(t, file)
	s.after = askEvents(t, jvm)
	t.Logf("%s%s", &a.stderr, &a.stdout)
	return s
}

// at returns what the samples with a method on top weigh, and their number.
func (s eventsSession) at(method string) ccmap.Counters {
	id, _ := s.Names().Lookup(method, "()V")
	if m, sampled := s.Method(id); sampled {
		return m.Self()
	}
	return ccmap.Counters{}
}

func checkAllocations(t *testing.T, jvm *jvmtest.JVM) {
	t.Helper()
	const enough = 200 << 20
	s := sampleEvents(t, jvm, "alloc", func(from, to eventsTruth) bool { return to.big-from.big >= enough })
	if s.Meta().Unit != engine.Alloc {
		t.Errorf("the unit is %v", s.Meta().Unit)
	}
	big, small := s.at("Events.big"), s.at("Events.small")
	samples, bytes := big.Samples+small.Samples, big.Time+small.Time
	if samples < 20 {
		t.Fatalf("%d samples", samples)
	}
	const slack = 8 << 20 // buffers of threads, which are counted when they are full
	least := s.to.big + s.to.small - s.from.big - s.from.small
	most := s.after.big + s.after.small - s.before.big - s.before.small + slack
	if bytes < least/2 || bytes > most {
		t.Errorf("%d bytes in %d samples, want %d to %d", bytes, samples, least/2, most)
	}
	share, want := float64(big.Time)/float64(bytes), float64(s.to.big-s.from.big)/float64(least)
	const unequal = 2 // samples weigh differently, so that they tell as much as fewer
	if sigma := math.Sqrt(unequal * want * (1 - want) / float64(samples)); math.Abs(share-want) > 5*sigma {
		t.Errorf("%.3f of the bytes are allocated by big, want %.3f ± %.3f", share, want, sigma)
	}
}

func checkWaits(t *testing.T, jvm *jvmtest.JVM) {
	t.Helper()
	s := sampleEvents(t, jvm, "lock", func(from, to eventsTruth) bool { return to.waits-from.waits >= 40 })
	if s.Meta().Unit != engine.Lock {
		t.Errorf("the unit is %v", s.Meta().Unit)
	}
	seen := s.at("Events.enter")
	if most := s.after.waits - s.before.waits; seen.Samples > most || seen.Time > s.after.waited-s.before.waited {
		t.Errorf("%d waits of %v, want at most %d of %v", seen.Samples, time.Duration(seen.Time), most, time.Duration(s.after.waited-s.before.waited))
	}
	if least := s.to.waited - s.from.waited; seen.Time < least*9/10 {
		t.Errorf("waits of %v, want at least %v", time.Duration(seen.Time), time.Duration(least))
	}
}

// checkRefusals asks engines and programs for events that they do not tell.
func checkRefusals(t *testing.T, jvm *jvmtest.JVM) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "none.json")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{strconv.Itoa(jvm.PID), "--engine", "perf", "--event", "lock"}, exitFailed, "--engine jfr does, of a JVM."},
		{[]string{strconv.Itoa(os.Getpid()), "--event", "alloc"}, exitFailed, "/debug/pprof/allocs"},
		{[]string{strconv.Itoa(jvm.PID), "--event", "alloc", "--hits", "7"}, exitUsage, "exclude each other"},
		{[]string{strconv.Itoa(jvm.PID), "--event", "alloc", "-o", "x.folded"}, exitUsage, "folded has no place for bytes"},
		{[]string{strconv.Itoa(jvm.PID), "--event", "tea"}, exitUsage, "must be cpu, alloc, lock, wait or wall"},
	} {
		code, _, errs := runWith(append([]string{"attach", "-o", file}, c.args...), nil)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("attach %q exits with %d: %s", c.args, code, errs)
		}
	}
}

// recordingsOf returns a JVM's list of recordings.
func recordingsOf(t *testing.T, pid int) string {
	t.Helper()
	target, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	list, err := target.Jcmd(t.Context(), time.Minute, "JFR.check")
	if err != nil {
		t.Fatal(err)
	}
	return list
}
