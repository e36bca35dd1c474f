package memory

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"
)

// groupsBy returns the groups by the program's innermost method.
func groupsBy(s Stuck, prefix string) map[string]StuckGroup {
	groups := map[string]StuckGroup{}
	for _, g := range s.Groups {
		if i := slices.IndexFunc(g.Frames, func(f StuckFrame) bool { return strings.HasPrefix(f.Method, prefix) }); i >= 0 {
			groups[g.Frames[i].Method] = g
		}
	}
	return groups
}

// TestStuckGoroutines: goroutines that leak or wait for each other are found, by watching or by the collector's note,
// and those that go on are not.
func TestStuckGoroutines(t *testing.T) {
	g := enginetest.Start(t, build(t, "stuck"))
	for name, o := range map[string]StuckOptions{
		"watched": {PID: g.PID(), Longer: 200 * time.Millisecond},
		"noted":   {PID: g.PID(), Longer: 100 * time.Millisecond, Watch: time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			var s Stuck
			for until := time.Now().Add(time.Minute); s.Stuck == 0 && time.Now().Before(until); { // the collector is late on a busy machine
				time.Sleep(o.Longer) // since the collector's note: that is what is tested
				var err error
				if s, err = FindStuck(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			groups := groupsBy(s, "main.")
			for method, want := range map[string]StuckGroup{
				"main.leaks":     {Tasks: 5, Reason: "[chan receive]", Labels: "job=leak"},
				"main.locksBoth": {Tasks: 2, Reason: "[sync.Mutex.Lock]"},
				"main.reads":     {Tasks: 1, Reason: "[IO wait]"},
			} {
				got := groups[method]
				if got.Tasks != want.Tasks || got.Reason != want.Reason || got.Labels != want.Labels || len(got.Some) != want.Tasks || got.Least < o.Longer {
					t.Errorf("%s: %+v, want %+v", method, got, want)
				}
			}
			if _, found := groups["main.goesOn"]; found || s.Tasks < 10 || len(s.Deadlocks) > 0 {
				t.Errorf("%+v", s)
			}
		})
	}
	s, err := FindStuck(t.Context(), StuckOptions{PID: g.PID(), Longer: time.Hour, Watch: 50 * time.Millisecond})
	if err != nil || s.Stuck != 0 || s.Unknown < 8 || len(s.Groups) > 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestStuckHostile: a vigil over goroutines that are lies stays within its bounds.
func TestStuckHostile(t *testing.T) {
	path := build(t, "liar", "-ldflags=-checklinkname=0")
	for _, lie := range []string{"wild", "cycle", "stacks", "unmaps", "changes"} {
		t.Run(lie, func(t *testing.T) {
			g := enginetest.Start(t, path, lie)
			v, err := newVigil(t.Context(), StuckOptions{PID: g.PID(), Longer: time.Nanosecond, Watch: 100 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			g.Proceed(t)
			if line := g.Line(t); line != "lied" {
				t.Fatal(line)
			}
			s, err := v.find(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if len(v.tasks) > 1<<20 || len(s.Groups) > stuckGroups {
				t.Errorf("%d goroutines are held, in %d groups", len(v.tasks), len(s.Groups))
			}
		})
	}
}

// TestCycles finds each cycle once, whatever leads into it.
func TestCycles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		next map[uint64]uint64
		want [][]uint64
	}{
		{nil, nil},
		{map[uint64]uint64{1: 2, 2: 3}, nil},
		{map[uint64]uint64{1: 1}, nil},
		{map[uint64]uint64{3: 2, 2: 3, 9: 3, 1: 9}, [][]uint64{{2, 3}}},
		{map[uint64]uint64{1: 2, 2: 3, 3: 1, 7: 8, 8: 7, 6: 5, 5: 4}, [][]uint64{{1, 2, 3}, {7, 8}}},
	} {
		if got := cycles(c.next); !slices.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("cycles(%v) = %v, want %v", c.next, got, c.want)
		}
	}
}

// TestStuckNested: a JVM in a container knows its threads by other numbers than the kernel tells here.
func TestStuckNested(t *testing.T) {
	jdks := jvmtest.JDKs(t)
	if os.Geteuid() != 0 {
		testrun.Lacks(t, "only root makes namespaces")
	}
	jvm := jdks[0].StartNested(t, "Stuck")
	s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	g := groupsBy(s, "Stuck.")["Stuck.wantsTheLock"]
	tids, err := process.Threads(jvm.PID)
	if err != nil {
		t.Fatal(err)
	}
	if g.Tasks != 2 || g.Owner == nil || g.Owner.Name != "keeper" || len(s.Deadlocks) != 2 || !slices.Contains(tids, uint32(g.Owner.ID)) {
		t.Errorf("%+v", s)
	}
}

// deadlocksOf returns the names of threads in each deadlock, with what they wait for.
func deadlocksOf(s Stuck) (all []string) {
	for _, cycle := range s.Deadlocks {
		var names []string
		for _, task := range cycle {
			what := " monitor"
			if task.Lock != "" {
				what = " lock"
			}
			names = append(names, task.Name+what)
		}
		slices.Sort(names)
		all = append(all, strings.Join(names, ", "))
	}
	slices.Sort(all)
	return all
}

// locksVariants are flags that change how a JVM writes pointers and moves objects.
var locksVariants = map[string][][]string{
	"17": {
		nil, {"-XX:+UseParallelGC", "-XX:-UseCompressedOops"}, {"-XX:+UseSerialGC", "-XX:-UseCompressedClassPointers"}, {"-XX:HeapBaseMinAddress=40g"},
	},
	"25": {
		nil, {"-XX:+UseParallelGC", "-XX:-UseCompressedOops"}, {"-XX:+UseSerialGC", "-XX:+UseCompactObjectHeaders"}, {"-XX:-UseCompressedClassPointers"},
	},
}

// TestStuckLocks: threads that wait for a lock of another have its stack, and those that wait for locks of each other are
// a deadlock, with monitors among them. What readers hold has no owner.
func TestStuckLocks(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		for _, flags := range jvmtest.PartInTurn(locksVariants[jdk.Name], 3) {
			t.Run(jdk.Name+strings.Join(flags, ""), func(t *testing.T) {
				jvm := jdk.Start(t, append(flags, "-Xmx64m"), "Locks")
				s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 300 * time.Millisecond})
				if err != nil || s.LocksUnknown != "" {
					t.Fatalf("%q, %v", s.LocksUnknown, err)
				}
				groups := groupsBy(s, "Locks.")
				for method, want := range map[string]string{
					"Locks.wantsTheLock": "keeper FairSync", "Locks.readsToo": "writer NonfairSync", "Locks.writesToo": "",
				} {
					g, got := groups[method], ""
					if o := g.Owner; o != nil {
						class, _, _ := strings.Cut(o.Lock, "@")
						got = o.Name + " " + class[strings.LastIndex(class, "$")+1:]
						if !slices.ContainsFunc(o.Frames, func(f StuckFrame) bool { return f.Method == "Locks.keepsTheLock" }) || o.Runs {
							t.Errorf("the owner of the lock: %+v", o)
						}
					}
					if got != want || g.Reason != parked {
						t.Errorf("%s: owner %q, want %q: %+v", method, got, want, g)
					}
				}
				if got := groups["Locks.wantsTheLock"].Tasks; got != 2 {
					t.Errorf("%d threads want the lock", got)
				}
				if got, want := deadlocksOf(s), []string{"enterer lock, locker monitor", "left lock, right lock"}; !slices.Equal(got, want) {
					t.Errorf("deadlocks %q, want %q", got, want)
				}
			})
		}
	}
}

// TestStuckCollectors: a collector that moves objects while the program runs is named as the reason why owners of locks
// are not known. Owners of monitors are, but for those that JDK 25 finds by objects.
func TestStuckCollectors(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, []string{"-XX:+UseZGC", "-Xmx64m"}, "Stuck")
			s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 300 * time.Millisecond})
			if err != nil || !strings.Contains(s.LocksUnknown, "ZGC") {
				t.Fatalf("%q, %v", s.LocksUnknown, err)
			}
			if got, want := deadlocksOf(s), []string{"left monitor, right monitor"}; !slices.Equal(got, want) && jdk.Name == "17" || len(got) > 1 {
				t.Errorf("deadlocks %q, want %q", got, want)
			}
		})
	}
}

// TestStuckThreads: threads of a JVM that wait for each other's monitors are a deadlock, those that wait for another's
// have its stack, and those that go on are left out.
func TestStuckThreads(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, nil, "Stuck")
			s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 300 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			groups := groupsBy(s, "Stuck.")
			for method, want := range map[string]StuckGroup{
				"Stuck.lockBoth":     {Tasks: 1, Reason: parked}, // and one for the other lock
				"Stuck.keepsTheLock": {Tasks: 1, Reason: "[sleep]"},
				"Stuck.wantsTheLock": {Tasks: 2, Reason: "[monitor enter]"},
			} {
				if got := groups[method]; got.Tasks != want.Tasks || got.Reason != want.Reason || got.Least < 300*time.Millisecond {
					t.Errorf("%s: %+v, want %+v", method, got, want)
				}
			}
			o := groups["Stuck.wantsTheLock"].Owner
			if o == nil || o.Name != "keeper" || o.Runs || !slices.ContainsFunc(o.Frames, func(f StuckFrame) bool { return f.Method == "Stuck.keepsTheLock" }) {
				t.Errorf("the owner of the lock: %+v", o)
			}
			if got, want := deadlocksOf(s), []string{"left monitor, right monitor", "locker-0 lock, locker-1 lock"}; !slices.Equal(got, want) {
				t.Errorf("deadlocks %q, want %q", got, want)
			}
			if _, found := groups["Stuck.goesOn"]; found {
				t.Errorf("%+v", groups)
			}
		})
	}
}

// TestStuckPrinted: threads wait for the monitors, and these have the owners, that the JVM prints itself.
func TestStuckPrinted(t *testing.T) {
	for _, jdk := range jvmtest.JDKs(t) {
		for _, flags := range jvmtest.PartInTurn(locksVariants[jdk.Name], 3) {
			t.Run(jdk.Name+strings.Join(flags, ""), func(t *testing.T) {
				jvm := jdk.Start(t, append(flags, "-Xmx64m"), "Stuck")
				s, err := FindStuck(t.Context(), StuckOptions{PID: jvm.PID, Longer: 300 * time.Millisecond})
				if err != nil {
					t.Fatal(err)
				}
				got := map[string]string{}
				for _, g := range s.Groups {
					if g.Reason != reasonMonitor {
						continue
					}
					for _, task := range g.Some {
						owner := "?"
						if g.Owner != nil {
							owner = g.Owner.Name
						}
						got[task.Name] = task.Monitor + " of " + owner
					}
				}
				out, err := exec.Command(filepath.Join(jdk.Home, "bin/jcmd"), strconv.Itoa(jvm.PID), "Thread.print").Output()
				if err != nil {
					t.Fatal(err)
				}
				if want := printedMonitors(string(out)); !maps.Equal(got, want) || len(want) != 4 {
					t.Errorf("%v, the JVM itself prints %v", got, want)
				}
			})
		}
	}
}

// printedMonitors reads which thread waits for which monitor, and of whom, from what jcmd Thread.print prints.
func printedMonitors(text string) map[string]string {
	object := regexp.MustCompile(`- (waiting to lock|locked) <0x0*([0-9a-f]+)> \(an? (.*)\)`)
	waits, owners, thread := map[string]string{}, map[string]string{}, ""
	for line := range strings.Lines(text) {
		if name, found := strings.CutPrefix(line, `"`); found {
			thread, _, _ = strings.Cut(name, `"`)
		}
		m := object.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if monitor := m[3] + "@0x" + m[2]; m[1] == "locked" {
			owners[monitor] = thread
		} else {
			waits[thread] = monitor
		}
	}
	for thread, monitor := range waits {
		waits[thread] = monitor + " of " + owners[monitor]
	}
	return waits
}
