package starlark

import (
	"testing"

	"go.starlark.net/starlark"

	"github.com/ccmapd/ccmapd/sampler/managed"
	"github.com/ccmapd/ccmapd/sampler/managed/managedtest"
)

// guest is the suite's program.
const guest = `
def A():
    while True:
        op = next()
        if op == RETURN:
            return
        A() if op == CALL_A else B()

def B():
    while True:
        op = next()
        if op == RETURN:
            return
        A() if op == CALL_A else B()

A()
`

func TestConformance(t *testing.T) {
	p := managed.New(managed.Options{Interval: -1})
	vm := managedtest.VM{
		Names: p.Sink().Names, A: "guest.star:A", B: "guest.star:B",
		Run: func(next func(managed.Walker) managedtest.Op) error { return runGuest(p, Options{Exact: true}, next) },
	}
	t.Run("exact=true", func(t *testing.T) { managedtest.Run(t, vm) })
	vm.NoMarks = true
	vm.Run = func(next func(managed.Walker) managedtest.Op) error { return runGuest(p, Options{}, next) }
	t.Run("exact=false", func(t *testing.T) { managedtest.Run(t, vm) })
}

func runGuest(p *managed.Profiler, o Options, next func(managed.Walker) managedtest.Op) error {
	thread := new(starlark.Thread)
	attached := Attach(p, thread, o)
	defer attached.Detach()
	_, err := starlark.ExecFileOptions(dialect, thread, "guest.star", guest, starlark.StringDict{
		"RETURN": starlark.MakeInt(int(managedtest.Return)),
		"CALL_A": starlark.MakeInt(int(managedtest.CallA)),
		"next": starlark.NewBuiltin("next", func(*starlark.Thread, *starlark.Builtin, starlark.Tuple, []starlark.Tuple) (starlark.Value, error) {
			return starlark.MakeInt(int(next(&attached.stack))), nil
		}),
	})
	return err
}
