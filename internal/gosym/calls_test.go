package gosym

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const callsSource = `package main

import "os"

type shape interface{ area() int }

type square struct{ a int }

//go:noinline
func (s *square) area() int { return direct(s.a) }

type embeds struct{ n int; *square }

//go:noinline
func direct(n int) int {
	return n * len(os.Args)
}

// small has one call, and is inlined.
func small(n int) int {
	return direct(n) + 1
}

// passes is nothing but a call, and is inlined.
func passes(n int) int { return small(n) }

//go:noinline
func caller(s shape, f func() int) int {
	a := direct(1)
	a += small(2)

	a += passes(3)
	a += s.area()
	return a + f()
}

//go:noinline
func other() int {
	return passes(4)
}

func main() {
	println(caller(embeds{1, &square{2}}, func() int { return direct(5) }), other())
}
`

// callsOf returns the calls of functions of a program, each once, in order.
func callsOf(t *testing.T, path string, wanted func(string) bool) (all []Call) {
	t.Helper()
	table, err := OpenFile(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if err := table.Calls(t.Context(), wanted, func(c Call) { all = append(all, c) }); err != nil {
		t.Fatal(err)
	}
	compare := func(a, b Call) int {
		return slices.Compare([]string{a.In, a.Caller, a.Callee, string(rune(a.Offset))}, []string{b.In, b.Caller, b.Callee, string(rune(b.Offset))})
	}
	slices.SortFunc(all, compare)
	return slices.Compact(all)
}

// TestCalls: the calls of functions are found in their own code, and where they were inlined, stripped or not.
func TestCalls(t *testing.T) {
	t.Parallel()
	of := func(names ...string) func(string) bool {
		return func(name string) bool { return slices.Contains(names, strings.TrimPrefix(name, "main.")) }
	}
	call := func(in, caller string, offset uint32, callee string, kind CallKind) Call {
		if callee != "" {
			callee = "main." + callee
		}
		first := strings.Count(callsSource[:strings.Index(callsSource, "func "+caller+"(")], "\n") + 1
		return Call{"main." + in, "main." + caller, offset, int32(first) + int32(offset), callee, kind}
	}
	for _, flags := range [][]string{nil, {"-ldflags=-s -w"}} {
		path := buildSource(t, callsSource, flags...)
		isCode := func(c Call) bool { return c.Kind == RuntimeCall } // morestack
		got := slices.DeleteFunc(callsOf(t, path, of("caller")), isCode)
		want := []Call{
			call("caller", "caller", 5, "", IndirectCall),
			call("caller", "caller", 6, "", IndirectCall),
			call("caller", "caller", 1, "direct", DirectCall),
			call("caller", "caller", 4, "passes", InlinedCall),
			call("caller", "caller", 2, "small", InlinedCall),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: calls of caller: %s", flags, diff)
		}
		got = slices.DeleteFunc(callsOf(t, path, of("small", "passes")), isCode)
		want = []Call{
			call("caller", "passes", 0, "small", InlinedCall),
			call("caller", "small", 1, "direct", DirectCall),
			call("other", "passes", 0, "small", InlinedCall),
			call("other", "small", 1, "direct", DirectCall),
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%v: calls of inlined functions: %s", flags, diff)
		}
	}
}

// TestCallMay: a call reaches what stacks can show there.
func TestCallMay(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		call   Call
		callee string
		want   bool
	}{
		{Call{Callee: "main.f"}, "main.f", true},
		{Call{Callee: "main.f"}, "main.g", false},
		{Call{Callee: "main.f", Kind: InlinedCall}, "main.g", false},
		{Call{Kind: IndirectCall}, "main.g", true},
		{Call{Kind: OtherCall}, "main.g", true},
		{Call{Kind: RuntimeCall}, "runtime.newstack", true},
		{Call{Kind: RuntimeCall}, "main.g", false},
	} {
		if got := c.call.May(c.callee); got != c.want {
			t.Errorf("%+v may reach %s: %t", c.call, c.callee, got)
		}
	}
}

// TestCallsEnd: a walk ends with its context, and with what it may cost.
func TestCallsEnd(t *testing.T) {
	t.Parallel()
	table := openSelf(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := table.Calls(ctx, anyName, func(Call) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled: %v", err)
	}
	b := testBudget()
	b.steps = 1000
	if _, err := table.inliners(b, anyName); !errors.Is(err, ErrTooMuch) {
		t.Errorf("after 1,000 steps: %v", err)
	}
}
