package compare

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// recorded returns a profile of stacks, "samples caller callee …".
func recorded(engine, comment string, activations int64, stacks ...string) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Meta().Engine, m.Meta().Interval = engine, []ccmap.IntervalChange{{Interval: 10 * time.Millisecond}}
	if comment != "" {
		m.Meta().Comments = []string{comment}
	}
	for _, stack := range stacks {
		at := m.Root()
		words := strings.Fields(stack)
		for _, name := range words[1:] {
			at = m.Child(at, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: name}))
		}
		n := int64(len(words[0])) * 100 // "xxx": 300 samples
		m.Add(at, ccmap.Counters{Samples: n, Time: n * 1e7, Activations: activations})
	}
	return m.Snapshot()
}

// TestSeenByBoth: what one profile cannot have counts for its callers or for nothing, and what both can have stays.
func TestSeenByBoth(t *testing.T) {
	t.Parallel()
	ours := recorded("bpf", "", 1, "xxx runtime.main main", "x runtime.main main [kernel] [kernel]", "xx runtime.main main runtime.asyncPreempt [kernel]",
		"x runtime.main main runtime.asyncPreempt runtime.asyncPreempt2", "x runtime.mstart runtime.sysmon runtime.usleep", "x [kernel]")
	own := recorded("", "", 0, "xx runtime.main main", "xx runtime.main main runtime.asyncPreempt", "x runtime.main main runtime.asyncPreempt runtime.asyncPreempt2")
	user := recorded("perf", ccmap.CommentNoKernel+"not permitted", 1, "xxx runtime.main main", "x runtime.mstart runtime.sysmon")
	// With calls, a profile without the kernel may be of a program that calls nothing.
	idle := recorded("perf", "", 1, "xxx runtime.main main")
	for _, test := range []struct {
		name  string
		a, b  *ccmap.Snapshot
		wantA string
		wantB string
		left  int
	}{
		{"runtime/pprof", ours, own, "main 600 runtime.asyncPreempt2 100", "main 400 runtime.asyncPreempt2 100", 3},
		{"the other way round", own, ours, "main 400 runtime.asyncPreempt2 100", "main 600 runtime.asyncPreempt2 100", 3},
		{"user mode", ours, user, "main 300 runtime.asyncPreempt2 100 runtime.usleep 100", "main 300 runtime.sysmon 100", 1},
		{"both of runtime/pprof", own, own, "main 200 runtime.asyncPreempt 200 runtime.asyncPreempt2 100", "main 200 runtime.asyncPreempt 200 runtime.asyncPreempt2 100", 0},
		{"a program without system calls", ours, idle, "main 300 [kernel] 100 [kernel] 200 runtime.asyncPreempt2 100 runtime.usleep 100 [kernel] 100", "main 300", 0},
	} {
		a, b, left := seenByBoth(test.a, test.b, ByTime)
		if got := selves(a); got != test.wantA {
			t.Errorf("%s: A is %q, want %q", test.name, got, test.wantA)
		}
		if got := selves(b); got != test.wantB {
			t.Errorf("%s: B is %q, want %q", test.name, got, test.wantB)
		}
		if len(left) != test.left {
			t.Errorf("%s: left out %+v, want %d", test.name, left, test.left)
		}
	}
}

// selves lists the nodes that have samples, in the order of the map.
func selves(s *ccmap.Snapshot) string {
	var parts []string
	for n := range s.Nodes() {
		if n.Self.Samples > 0 {
			parts = append(parts, s.Names().At(n.Method).Name, strconv.FormatInt(n.Self.Samples, 10))
		}
	}
	return strings.Join(parts, " ")
}

// TestCompareSeenByBoth: profiles are compared by what both can have, in both directions, unless the caller says what
// to absorb: then by that alone.
func TestCompareSeenByBoth(t *testing.T) {
	t.Parallel()
	ours := recorded("bpf", "", 1, "xxx runtime.main main", "xxx runtime.main main [kernel]", "xxxx runtime.mstart runtime.sysmon")
	own := recorded("", "", 0, "xxx runtime.main main")
	for _, test := range []struct {
		a, b    *ccmap.Snapshot
		o       Options
		percent float64
		left    int
	}{
		{ours, own, Options{}, 100, 2},
		{own, ours, Options{}, 100, 2},
		{ours, own, Options{Absorb: ccmap.Method.IsKernel}, 60, 0},
		{ours, ours, Options{}, 100, 0},
	} {
		r, err := Compare(test.a, test.b, test.o)
		if err != nil || r.Methods.Percent != test.percent || len(r.LeftOut) != test.left {
			t.Errorf("methods overlap by %v, left out %+v, %v; want %v and %d", r.Methods.Percent, r.LeftOut, err, test.percent, test.left)
		}
	}
}
