package main

import (
	"fmt"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"path/filepath"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// TestRealReceivers profiles a server under load that counts the dynamic types at
// some of its calls itself, and that has a profile of its own.
func TestRealReceivers(t *testing.T) {
	testrun.Full(t, testrun.Package)
	testrun.Breakpoints(t, perfevent.Silent())
	t.Parallel()
	needEngine(t)
	if testing.Short() {
		t.Skip("builds and loads a server for seconds")
	}
	counting := buildCountingServer(t)
	server, address := serveFortio(t, counting.binary, "RECEIVERS="+counting.socket)
	file := filepath.Join(t.TempDir(), "server.json")
	a := attachTo(t, fmt.Sprint(server.Process.Pid), "--tune=false", "-i", "1ms", "--hits", "4000", "-o", file)
	before := counting.counts(t)
	own := enoughOf(t, address)
	waitForCPU(t, server.Process.Pid, 3*time.Second) // which a busy machine needs longer for
	counted := make(map[string]mix)
	for name, m := range counting.counts(t) {
		counted[name] = m.minus(before[name])
	}
	s := a.interrupt(t, file)

	for name, at := range counting.calls {
		t.Run("caught/"+name, func(t *testing.T) {
			caughtAsCounted(t, reached(s, ccmap.OriginBurst, at, receiverType), counted[name])
		})
		t.Run("sampled/"+name, func(t *testing.T) {
			sampledAsByRuntime(t, reached(s, ccmap.OriginSampled, at, byName), sampledAt(own, at))
		})
	}
	t.Run("report", func(t *testing.T) { reportAsCounted(t, reportReceivers(t, file), counting, counted) })
}

// enoughOf returns a server's own CPU profile of so long that every call is in it: a busy
// machine leaves the server little time.
func enoughOf(t *testing.T, address string) *ccmap.Snapshot {
	t.Helper()
	const enough = 400 // samples
	own := fetchProfile(t, address, 5)
	for seconds := 10; own.Total().Samples < enough && seconds < 100; seconds *= 2 {
		own = fetchProfile(t, address, seconds)
	}
	return own
}

// reportAsCounted: the report has the server's hottest call through an interface on
// top, and names the types that the server has counted, by the calls that were
// caught.
func reportAsCounted(t *testing.T, report []receiversSite, server countingServer, counted map[string]mix) {
	const hottest = "bufio.(*Writer).Flush" // it leads to the kernel, for each answer
	if top := report[0].Caller.Method; top != hottest {
		t.Errorf("the hottest call is in %s, want %s", top, hottest)
	}
	for name, at := range server.calls {
		site := siteAt(t, report, at)
		if site.Decisive != "calls" {
			t.Errorf("%s: the %s decide, want the calls", name, site.Decisive)
			continue
		}
		want := "monomorphic"
		if len(counted[name]) == 2 {
			want = "bimorphic"
		}
		if site.Verdict != want {
			t.Errorf("%s is %s, want %s: the server counted %v", name, site.Verdict, want, counted[name])
		}
		for _, r := range site.ByCalls.Receivers {
			if counted[name][r.Receiver] == 0 {
				t.Errorf("%s reaches %s, which the server has not counted: %v", name, r.Receiver, counted[name])
			}
		}
	}
}

// caughtAsCounted: the types that breakpoints caught have the shares that the
// server has counted.
func caughtAsCounted(t *testing.T, caught, counted mix) {
	t.Logf("caught %v of %v", caught, counted)
	if caught.total() < 100 {
		t.Errorf("%d calls caught are too few to tell", caught.total())
	}
	for _, wrong := range caught.differs(counted, 1) {
		t.Error(wrong)
	}
}

// sampledAsByRuntime: the callees on sampled stacks have the shares that
// runtime/pprof finds over much the same time.
func sampledAsByRuntime(t *testing.T, sampled, own mix) {
	t.Logf("sampled %v, by runtime/pprof %v", sampled, own)
	if own.total() == 0 {
		t.Error("runtime/pprof has no such call")
	}
	for _, wrong := range sampled.differs(own, 3) {
		t.Error(wrong)
	}
}

// receiverType is the dynamic type whose method was called.
func receiverType(m ccmap.Method) string {
	if m.Receiver == "" {
		return m.Name
	}
	return m.Receiver
}

// sampledAt returns the callees of a call in a CPU profile, by samples.
func sampledAt(s *ccmap.Snapshot, at call) mix {
	callees := make(mix)
	id, _ := s.Names().Lookup(at.method, "")
	caller, _ := s.Method(id)
	for site := range caller.CallSites() {
		if caller.Method().StartLine+int32(site.Offset()) != at.line {
			continue
		}
		for callee := range site.Callees() {
			callees[s.Names().At(callee.Callee()).Name] += callee.Total().Samples
		}
	}
	return callees
}
