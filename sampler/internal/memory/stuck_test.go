package memory

import (
	"maps"
	"os"
	"slices"
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
			time.Sleep(o.Longer) // since the collector's note: that is what is tested
			s, err := FindStuck(t.Context(), o)
			if err != nil {
				t.Fatal(err)
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
	for _, lie := range []string{"wild", "cycle", "stacks"} {
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
	if g.Tasks != 2 || g.Owner == nil || g.Owner.Name != "keeper" || len(s.Deadlocks) != 1 || !slices.Contains(tids, uint32(g.Owner.ID)) {
		t.Errorf("%+v", s)
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
				"Stuck.lockBoth":     {Tasks: 2, Reason: "[park]"},
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
			if len(s.Deadlocks) != 1 {
				t.Fatalf("deadlocks %+v", s.Deadlocks)
			}
			names := map[string]bool{}
			for _, task := range s.Deadlocks[0] {
				names[task.Name] = task.Monitor != ""
			}
			if !maps.Equal(names, map[string]bool{"left": true, "right": true}) {
				t.Errorf("deadlock %+v", s.Deadlocks)
			}
			if _, found := groups["Stuck.goesOn"]; found {
				t.Errorf("%+v", groups)
			}
		})
	}
}
