package starlark

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/starlark"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

func TestMethods(t *testing.T) {
	t.Parallel()
	const program = `# a comment
def top(): # line 2
    def nested():
        pass
    return nested

twice = lambda x: 2 * x
`
	names := ccmap.NewNames()
	m := newMethods(names)
	thread := new(starlark.Thread)
	globals, err := starlark.ExecFileOptions(dialect, thread, "lib/a.star", program, nil)
	if err != nil {
		t.Fatal(err)
	}
	nested, err := starlark.Call(thread, globals["top"], nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	other, err := starlark.ExecFileOptions(dialect, thread, "lib/a.star", "\n"+program, nil)
	if err != nil {
		t.Fatal(err)
	}
	appendTo, err := starlark.NewList(nil).Attr("append")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		callable starlark.Value
		want     ccmap.Method
	}{
		{globals["top"], ccmap.Method{Name: "lib/a.star:top", File: "lib/a.star", StartLine: 2}},
		{nested, ccmap.Method{Name: "lib/a.star:nested@3:5", File: "lib/a.star", StartLine: 3}},
		{globals["twice"], ccmap.Method{Name: "lib/a.star:lambda@7:9", File: "lib/a.star", StartLine: 7}},
		{other["top"], ccmap.Method{Name: "lib/a.star:top@3:1", File: "lib/a.star", StartLine: 3}},
		{starlark.Universe["sorted"], ccmap.Method{Name: "sorted"}},
		{appendTo, ccmap.Method{Name: "list.append", Receiver: "list"}},
		{constructor{}, ccmap.Method{Name: "rule.make", Receiver: "rule"}},
	} {
		for range 2 {
			got := names.At(m.of(test.callable.(starlark.Callable)))
			if _, isFunction := test.callable.(*starlark.Function); isFunction != (got.Body != 0) {
				t.Errorf("%v has the body %x", test.callable, got.Body)
			}
			got.Body = 0
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("%v (-want +got):\n%s", test.callable, diff)
			}
		}
	}
}

// constructor is a host's own callable, of a type that Go cannot compare.
type constructor struct {
	starlark.Value
	fields []string
}

func (constructor) Name() string   { return "make" }
func (constructor) Type() string   { return "rule" }
func (constructor) String() string { return "rule" }
func (constructor) CallInternal(thread *starlark.Thread, args starlark.Tuple, _ []starlark.Tuple) (starlark.Value, error) {
	return starlark.Call(thread, args[0], nil, nil)
}

func TestHostsOwnCallables(t *testing.T) {
	t.Parallel()
	o := newObserver(nil)
	predeclared := o.predeclared()
	predeclared["make"] = constructor{fields: []string{"a"}}
	thread := o.thread()
	attached := Attach(o.profiler, thread, Options{Exact: true})
	const program = "def f():\n    hit()\n    x = 1\nmake(f)\nmake(f)\ntwice(make, f)\nhit()\n"
	if _, err := starlark.ExecFileOptions(dialect, thread, "p.star", program, predeclared); err != nil {
		t.Fatal(err)
	}
	attached.Detach()
	s := o.snapshot(t)
	o.checkContexts(t, s)
	if got := sampled(s)["p.star:f"]; got != o.began["p.star:f"] {
		t.Errorf("%d activations of f, want %d", got, o.began["p.star:f"])
	}
	if got := sampled(s)["rule.make"]; got != 3 {
		t.Errorf("%d activations of make, want 3: that of twice's second call cannot be told from its first", got)
	}
}

// A position is the line of the last instruction. For a caller it is the line of its
// call.
func TestPositions(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: -1})
	thread := &starlark.Thread{OnMaxSteps: func(thread *starlark.Thread) { p.Mark(1) }}
	thread.SetMaxExecutionSteps(1)
	attached := Attach(p, thread, Options{Exact: true})
	const program = "def f(x):\n    y = (x +\n      1)\n    return y\n\ndef g():\n    x = 1\n    return f(x)\n\ng()\n"
	if _, err := starlark.ExecFileOptions(dialect, thread, "p.star", program, nil); err != nil {
		t.Fatal(err)
	}
	attached.Detach()
	names := p.Sink().Names
	executing, calling := make(map[string]bool), make(map[string]bool)
	p.Sink().Queue.Drain(func(s *ccmap.Sample) {
		for i, f := range s.Frames {
			position := fmt.Sprintf("%s %d", names.At(f.Method).Name, names.Line(f))
			if i == 0 {
				executing[position] = true
			} else {
				calling[position] = true
			}
		}
	})
	want := map[string]bool{
		"p.star:<toplevel> 1": true, "p.star:<toplevel> 6": true, "p.star:<toplevel> 10": true,
		"p.star:g 6": true, "p.star:g 8": true, "p.star:f 2": true, "p.star:f 4": true,
	}
	if diff := cmp.Diff(want, executing); diff != "" {
		t.Errorf("where time is spent (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]bool{"p.star:<toplevel> 10": true, "p.star:g 8": true}, calling); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}
