package memory

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
)

// with25 returns JDK 25.
func with25(t testing.TB) jvmtest.JDK {
	t.Helper()
	for _, jdk := range jvmtest.JDKs(t) {
		if jdk.Name == "25" {
			return jdk
		}
	}
	testrun.Lacks(t, "no JDK 25")
	return jvmtest.JDK{}
}

// TestStuckVirtual: virtual threads without a carrier that wait are found by stack, with the owners of locks, which may be
// virtual threads, too, and so may deadlocks. Those that go on are not, while collections move all objects or not.
func TestStuckVirtual(t *testing.T) {
	for _, flags := range [][]string{nil, {"-XX:+UseParallelGC", "-XX:-UseCompressedOops"}, {"-XX:+UseSerialGC", "-XX:+UseCompactObjectHeaders"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			jvm := with25(t).Start(t, append(flags, "-Xmx64m"), "Rests", "80", "goes")
			s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 500 * time.Millisecond})
			if err != nil || s.VirtualUnknown != "" || s.LocksUnknown != "" {
				t.Fatalf("%q, %q, %v", s.VirtualUnknown, s.LocksUnknown, err)
			}
			groups := groupsBy(s, "Rests.")
			for method, want := range map[string]string{
				"Rests.sleeps": "[sleep]", "Rests.parks": parked, "Rests.takes": parked, "Rests.locks": parked, "Rests.reads": "[IO wait]",
				"Rests.enters": reasonMonitor, "Rests.waits": "[Object.wait]", "Rests.recurses": parked,
			} {
				if g := groups[method]; g.Tasks != 10 || g.Reason != want || !g.Some[0].Virtual || g.Least < 500*time.Millisecond {
					t.Errorf("%s: %+v, want %s", method, g, want)
				}
			}
			for method, want := range map[string]StuckTask{"Rests.locks": {Name: "holder"}, "Rests.enters": {Name: "holder"}, "Rests.wants": {Name: "keeper", Virtual: true}} {
				o := groups[method].Owner
				if o == nil || o.Name != want.Name || o.Virtual != want.Virtual || o.Reason != "[sleep]" {
					t.Errorf("%s: owner %+v, want %+v", method, o, want)
				}
			}
			if got, want := deadlocksOf(s), []string{"links-ä✓ lock, rechts lock"}; !slices.Equal(got, want) {
				t.Errorf("deadlocks %q, want %q", got, want)
			}
			if g, found := groups["Rests.goesOn"]; found {
				t.Errorf("%+v", g)
			}
		})
	}
}

// TestStuckEnters: virtual threads that wait for a monitor have its class and its owner, which may be a virtual thread,
// too, and so may deadlocks.
func TestStuckEnters(t *testing.T) {
	for _, flags := range [][]string{nil, {"-XX:+UseSerialGC", "-XX:+UseCompactObjectHeaders"}} {
		t.Run(strings.Join(flags, ""), func(t *testing.T) {
			jvm := with25(t).Start(t, append(flags, "-Djdk.virtualThreadScheduler.parallelism=4"), "Enters")
			s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 500 * time.Millisecond})
			if err != nil || s.VirtualUnknown != "" || s.LocksUnknown != "" {
				t.Fatalf("%q, %q, %v", s.VirtualUnknown, s.LocksUnknown, err)
			}
			tasks := map[string]int{} // that wait, by monitor and its owner
			for _, g := range s.Groups {
				if o := g.Owner; o != nil && g.Reason == reasonMonitor {
					class, _, _ := strings.Cut(o.Monitor, "@")
					if slices.ContainsFunc(o.Frames, func(f StuckFrame) bool { return f.Method == "Enters.keeps" }) {
						tasks[class+" "+o.Name] += g.Tasks
					}
				}
			}
			for of, want := range map[string]int{"Enters$Held holder": 5, "Enters$Slept sleeper": 5, "Enters$Inflated inflater": 5, "int[] arrayer": 4} {
				if tasks[of] != want {
					t.Errorf("%d wait for %s, want %d: %v", tasks[of], of, want, tasks)
				}
			}
			want := []string{"guard lock, locker monitor", "left monitor, right monitor", "mixed monitor, plain monitor"}
			if got := deadlocksOf(s); !slices.Equal(got, want) {
				t.Errorf("deadlocks %q, want %q", got, want)
			}
		})
	}
}

// TestStuckUntracked: it is said that virtual threads are not known, and why.
func TestStuckUntracked(t *testing.T) {
	for flag, want := range map[string]string{"-XX:+UseZGC": "ZGC", "-Djdk.trackAllThreads=false": "trackAllThreads"} {
		t.Run(want, func(t *testing.T) {
			jvm := with25(t).Start(t, []string{flag, "-Xmx64m"}, "Rests", "80")
			s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 300 * time.Millisecond})
			if err != nil || !strings.Contains(s.VirtualUnknown, want) {
				t.Fatalf("%q, %v", s.VirtualUnknown, err)
			}
			groups := groupsBy(s, "Rests.")
			if n := groups["Rests.sleeps"].Tasks; n != 10 && want != "ZGC" { // they belong to an executor
				t.Errorf("%d threads of an executor", n)
			}
		})
	}
}

// TestVirtualTruth: ten virtual threads that sleep have ten times as long in it as a thread of the system that sleeps, and
// [idle] is told for both.
func TestVirtualTruth(t *testing.T) {
	jvm := with25(t).Start(t, nil, "Rests", "80")
	for _, idle := range []time.Duration{0, 300 * time.Millisecond} {
		s := attach(t, jvm.PID, sampler.ProcessOptions{Unit: Wait, Interval: 20 * time.Millisecond, Idle: idle, Threads: true})
		by, labels := map[string]int64{}, map[string]bool{}
		s.each = func(smp *ccmap.Sample) {
			for _, f := range smp.Frames {
				switch m := s.names.At(f.Method); {
				case m.IsLabels():
					labels[m.Signature] = true
				default:
					by[m.Name+" "+s.names.At(smp.Frames[0].Method).Name] += smp.Weight
				}
			}
		}
		s.await(t, 3*time.Second)
		s.end(t)
		one, ten := "Rests.holds ", "Rests.sleeps "
		for _, reason := range []string{"[sleep]", frameIdle} {
			t.Logf("idle %v: %v of one, %v of ten in %s", idle, time.Duration(by[one+reason]), time.Duration(by[ten+reason]), reason)
		}
		for reason, wanted := range map[string]bool{"[sleep]": idle == 0, frameIdle: idle > 0} {
			of, want := float64(by[ten+reason]), 10*float64(by[one+reason])
			if wanted && (want == 0 || of < 0.95*want || of > 1.05*want) || !wanted && of > 0 && idle == 0 {
				t.Errorf("idle %v: %v in %s, want %v", idle, of, reason, want)
			}
		}
		for _, label := range []string{"thread=virtual", "thread=keeper"} {
			if !labels[label] {
				t.Errorf("no label %s: %v", label, labels)
			}
		}
	}
}
