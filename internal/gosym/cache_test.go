package gosym

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/google/go-cmp/cmp"
)

func TestCachedLookupsAllocateNothing(t *testing.T) {
	table := openSelf(t)
	pcs, names := codeAddresses(table, 1000), ccmap.NewNames()
	dst := table.Stack(pcs, names, nil)
	for _, pc := range pcs {
		table.SPDelta(pc)
	}
	allocs := testing.AllocsPerRun(10, func() {
		dst = table.Stack(pcs, names, dst[:0])
		for _, pc := range pcs {
			table.SPDelta(pc)
			table.Func(pc)
			table.Kind(pc)
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// codeAddresses returns n addresses spread over the Go code.
func codeAddresses(table *Table, n uint64) []uint64 {
	m := table.modules[0]
	var pcs []uint64
	for i := range n {
		pcs = append(pcs, m.minpc+(m.maxpc-m.minpc)/n*i)
	}
	return pcs
}

func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	table, names := madeTable(t), ccmap.NewNames()
	for pc := range uint64(3 * maxCached) {
		table.Stack([]uint64{pc}, names, nil)
		table.SPDelta(pc)
	}
	if len(table.frames) > maxCached || len(table.deltas) > maxCached {
		t.Errorf("%d and %d cached, limit %d", len(table.frames), len(table.deltas), maxCached)
	}
}

// TestStackOfOtherNames has methods of the table that is asked for, whatever is
// cached.
func TestStackOfOtherNames(t *testing.T) {
	t.Parallel()
	table, pcs := madeTable(t), []uint64{madeText + 16}
	first, second := ccmap.NewNames(), ccmap.NewNames()
	other := second.Intern(ccmap.Method{Name: "something else"})
	table.Stack(pcs, first, nil)
	got := table.Stack(pcs, second, nil)
	want := []ccmap.Frame{{Method: other + 1, Offset: 1}, {Method: other + 2, Offset: 2}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-want +got):\n%s", diff)
	}
}

// TestWrappersAndInjectedCalls gives the made functions roles of the runtime.
func TestWrappersAndInjectedCalls(t *testing.T) {
	t.Parallel()
	const inlined, last = madeText + 32, madeText + 64 // a return address behind main.inner; main.last
	for name, c := range map[string]struct {
		callee FuncID // of main.last
		want   []string
	}{
		"call":    {FuncNormal, []string{"main.last", "main.inner", "main.outer"}},
		"fault":   {FuncSigpanic, []string{"main.last", "main.outer"}},
		"preempt": {FuncAsyncPreempt, []string{"main.last", "main.outer"}},
		"panic":   {FuncGopanic, []string{"main.last", "main.inner", "main.outer"}},
	} {
		t.Run(name, func(t *testing.T) {
			table, names := withRoles(t, FuncNormal, c.callee), ccmap.NewNames()
			got := namesOf(names, table.Stack([]uint64{last, inlined}, names, nil))
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("stack (-want +got):\n%s", diff)
			}
		})
	}
	for callee, want := range map[FuncID][]string{
		FuncNormal:    {"main.last", "main.outer"},
		FuncPanicwrap: {"main.last", "main.inner", "main.outer"},
	} {
		table, names := withRoles(t, FuncWrapper, callee), ccmap.NewNames()
		got := namesOf(names, table.Stack([]uint64{last, inlined}, names, nil))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("wrapper that called %d (-want +got):\n%s", callee, diff)
		}
	}
}

// withRoles makes main.inner and main.last functions of a role.
func withRoles(t *testing.T, inner, last FuncID) *Table {
	m := madeModule()
	m.b[0x800], m.b[0x6c0+40] = 1, 2
	made, err := loadMade(m)
	if err != nil {
		t.Fatal(err)
	}
	made.ids[1], made.ids[2] = inner, last
	table := newTable(0, m, "/made", Options{})
	table.modules = []*module{made}
	return table
}

func namesOf(names *ccmap.Names, frames []ccmap.Frame) []string {
	var out []string
	for _, f := range frames {
		out = append(out, names.At(f.Method).Name)
	}
	return out
}
