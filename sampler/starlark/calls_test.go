package starlark

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.starlark.net/starlark"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

const dispatch = `
def a(x):
    return x

def b(x):
    return -x

def call(f):
    return f(1)

def main():
    while not enough():
        call(a)
        call(b)
        sorted([1], key = a)
        box(b, 1)
main()
`

// caught is a call as a hit shows it.
type caught struct {
	Target string
	Caller string
	Line   int32 // of the call; 0: the caller is a builtin
}

func TestCallsAreCaught(t *testing.T) {
	t.Parallel()
	p := managed.New(managed.Options{Interval: managed.MinInterval, HitBudget: 1e6})
	ctx, stop := context.WithCancel(t.Context())
	var marker sync.WaitGroup
	marker.Go(func() { _, _ = p.Run(ctx) })
	got := make(map[caught]bool)
	enough := func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
		p.Sink().Queue.Drain(func(s *ccmap.Sample) {
			if s.Hit {
				got[call(p.Sink().Names, s)] = true
			}
		})
		return starlark.Bool(p.Stats().Counts[sampler.Caught] > 1000), nil
	}
	predeclared := newObserver(nil).predeclared()
	predeclared["enough"] = starlark.NewBuiltin("enough", enough)
	thread := new(starlark.Thread)
	attached := Attach(p, thread, Options{Exact: true})
	_, err := starlark.ExecFileOptions(dialect, thread, "p.star", dispatch, predeclared)
	attached.Detach()
	stop()
	marker.Wait()
	if err != nil {
		t.Fatal(err)
	}
	want := map[caught]bool{
		{"p.star:call", "p.star:main", 13}: true,
		{"p.star:call", "p.star:main", 14}: true,
		{"p.star:a", "p.star:call", 9}:     true,
		{"p.star:b", "p.star:call", 9}:     true,
		{"sorted", "p.star:main", 15}:      true,
		{"p.star:a", "sorted", 0}:          true,
		{"list.each", "p.star:main", 16}:   true,
		{"p.star:b", "list.each", 0}:       true,
	}
	delete(got, caught{"p.star:main", "p.star:<toplevel>", 17}) // called once, and caught by chance
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got):\n%s", diff)
	}
}

func call(names *ccmap.Names, s *ccmap.Sample) caught {
	site := s.Frames[1]
	return caught{names.At(s.Frames[0].Method).Name, names.At(site.Method).Name, names.Line(site)}
}
