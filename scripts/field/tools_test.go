package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/procfs"
)

func TestNamesOf(t *testing.T) {
	t.Parallel()
	list := "     0.62s 21.60% 21.60%      0.62s 21.60%  runtime.futex\n" +
		"     0.10s  3.48% 25.09%      0.30s 10.45%  main.(*box).add (inline)\n" +
		"     0.05s  1.74% 26.83%      0.05s  1.74%  slices.pdq[go.shape.struct { main.a int }]\n"
	want := []string{"runtime.futex", "main.(*box).add", "slices.pdq[go.shape.struct { main.a int }]"}
	if diff := cmp.Diff(want, namesOf(list)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestParseEdges(t *testing.T) {
	t.Parallel()
	text := "GO PREPROFILE V1\nmain.main\nmain.work\n3 30\nmain.work\nruntime.mallocgc\n-1 10\n"
	got, err := parseEdges([]byte(text))
	want := map[string]float64{"main.main 3 main.work": 0.75, "main.work -1 runtime.mallocgc": 0.25}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; -want +got\n%s", err, diff)
	}
	if _, err := parseEdges([]byte("GO PREPROFILE V1\na\nb\nc d\n")); err == nil {
		t.Error("a weight that is no number is no error")
	}
}

// Addresses of the kernel are left out, and so are stacks without others.
func TestUserStacks(t *testing.T) {
	t.Parallel()
	mapped := []*procfs.ProcMap{
		{Pathname: "/tmp/a b", StartAddr: 0x400000, EndAddr: 0x402000, Perms: &procfs.ProcMapPermissions{Execute: true}},
		{Pathname: "/libc", StartAddr: 0x7000, EndAddr: 0x8000, Offset: 0x2000, Perms: &procfs.ProcMapPermissions{Execute: true}},
		{Pathname: "/libc", StartAddr: 0x9000, EndAddr: 0xa000, Offset: 0x2000, Perms: &procfs.ProcMapPermissions{Read: true}},
	}
	text := "\n\tffffffff81000000 ([kernel.kallsyms])\n\t            3ac0 (/tmp/a b)\n\t            1000 (/tmp/a b)\n\n" +
		"\tffffffff82000000 ([kernel.kallsyms])\n\n\t 2010 (/libc)\n"
	want := [][]uint64{{0x3ac0, 0x401000}, {0x7010}}
	if diff := cmp.Diff(want, userStacks([]byte(text), mapped)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// The time of foreign frames is their callers' own.
func TestOwnTime(t *testing.T) {
	t.Parallel()
	s := folded(t, "main.a;main.b;sqlite3_step;[kernel] 30\nmain.a 10\n[unknown] 60\n")
	want := map[string]float64{"main.b": 0.75, "main.a": 0.25}
	if diff := cmp.Diff(want, ownTime(s)); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestInCommon(t *testing.T) {
	t.Parallel()
	if got := inCommon(map[string]float64{"a": 0.5, "b": 0.5}, map[string]float64{"b": 0.25, "c": 0.75}); got != 0.25 {
		t.Errorf("%v, want 0.25", got)
	}
}
