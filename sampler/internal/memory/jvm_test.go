package memory

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// ownClocks returns how long each method of Waits has waited since the last call, by the program's own clock, ns, and as
// "Waits.at" that clock itself.
func ownClocks(t *testing.T, jvm *jvmtest.JVM) map[string]int64 {
	t.Helper()
	jvm.Tell(t, "")
	if !jvm.Out.Scan() {
		t.Fatal("it has ended")
	}
	clocks := map[string]int64{}
	fields := strings.Fields(jvm.Out.Text())
	for i := 0; i+1 < len(fields); i += 2 {
		n, err := strconv.ParseInt(fields[i+1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		clocks["Waits."+fields[i]] = n
	}
	return clocks
}

// threadNamed returns the thread of a process that has a name.
func threadNamed(t *testing.T, pid int, name string) (tid uint32) {
	t.Helper()
	tids, err := process.Threads(pid)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tids, func(tid uint32) bool {
		comm, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/comm", pid, tid))
		return err == nil && strings.TrimSpace(string(comm)) == name
	})
	if i < 0 {
		t.Fatalf("no thread %s", name)
	}
	return tids[i]
}

// wantedCPU returns how long a thread has waited for a CPU so far, ns (Documentation/scheduler/sched-stats.rst).
func wantedCPU(t *testing.T, pid int, tid uint32) (delay int64) {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/schedstat", pid, tid))
	var ran int64
	if err == nil {
		_, err = fmt.Sscan(string(text), &ran, &delay)
	}
	if err != nil {
		t.Fatal(err)
	}
	return delay
}

// TestJVMTruth: the time that threads of Java wait in a method is what the program's own clock says, and its reason is
// the right one.
func TestJVMTruth(t *testing.T) {
	reasons := map[string]string{
		"Waits.sleeps": "[sleep]", "Waits.parks": "[park]", "Waits.enters": "[monitor enter]", "Waits.waits": "[Object.wait]", "Waits.reads": "[native]",
	}
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, nil, "Waits")
			s := attach(t, jvm.PID, sampler.ProcessOptions{Unit: Wait, Interval: 5 * time.Millisecond, Threads: true})
			by, under := map[string]int64{}, map[string]int64{} // time by method, and by its reason
			labels := map[string]bool{}
			s.each = func(smp *ccmap.Sample) {
				for _, f := range smp.Frames {
					switch m := s.names.At(f.Method); {
					case reasons[m.Name] != "":
						by[m.Name] += smp.Weight
						if s.names.At(smp.Frames[0].Method).Name == reasons[m.Name] {
							under[m.Name] += smp.Weight
						}
					case m.IsLabels():
						labels[m.Signature] = true
					}
				}
			}
			s.awaitLook(t, 0) // a first one, since which the next one counts
			from := ownClocks(t, jvm)["Waits.at"]
			reader := threadNamed(t, jvm.PID, "reads-11")
			wanted := wantedCPU(t, jvm.PID, reader)
			s.await(t, 2*time.Second)
			clocks := ownClocks(t, jvm)
			wanted = wantedCPU(t, jvm.PID, reader) - wanted
			s.awaitLook(t, clocks["Waits.at"])
			s.end(t)
			clear(by)
			clear(under)
			s.only(from, clocks["Waits.at"])
			for method, reason := range reasons {
				got, want := by[method], clocks[method]
				t.Logf("%s: %v, by its own clock %v", method, time.Duration(got), time.Duration(want))
				least := want
				if reason == "[native]" {
					least -= wanted // it is no wait for the peer that a thread wants a CPU
				}
				const within = 0.1 // of samples of some 100 waits on a busy machine
				if float64(got) < (1-within)*float64(least) || float64(got) > (1+within)*float64(want) {
					t.Errorf("%s: %v, by its own clock %v, of which it wanted a CPU for %v", method, time.Duration(got), time.Duration(want), time.Duration(want-least))
				}
				if float64(under[method]) < 0.8*float64(got) {
					t.Errorf("%s: %v of %v for %s", method, time.Duration(under[method]), time.Duration(got), reason)
				}
			}
			t.Log(s.flat)
			for _, label := range []string{"thread=sleeps-*", "thread=reads-*", "thread=enters-*"} {
				if !labels[label] {
					t.Errorf("no label %s: %v", label, labels)
				}
			}
			if st := s.Stats(); st.Counts[sampler.Rooted] == 0 || st.Threads < 7 {
				t.Errorf("%d samples are rooted, of %d threads", st.Counts[sampler.Rooted], st.Threads)
			}
		})
	}
}

// TestJVMRunning: a thread that runs Java is [running] in wall time, and in no wait.
func TestJVMRunning(t *testing.T) {
	jvm := jvmtest.JDKs(t)[0].Start(t, nil, "Loop")
	for _, unit := range []ccmap.Unit{Wait, Wall} {
		s := attach(t, jvm.PID, sampler.ProcessOptions{Unit: unit, Interval: 5 * time.Millisecond})
		s.await(t, 300*time.Millisecond)
		s.end(t)
		if running := s.flat[frameRunning] > 0; running != (unit == Wall) {
			t.Errorf("%v: %v", unit, s.flat)
		}
	}
}
