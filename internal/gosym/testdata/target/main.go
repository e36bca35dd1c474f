// Target is a program for the tests of package gosym. It prints one line of JSON: how
// its own runtime sees a stack with generics, wrappers, closures and inlining, and
// which functions calls of interface methods reach. Then it waits for the end of its
// input.
package main

import (
	"encoding/json"
	"io"
	"os"
	"reflect"
	"runtime"
	"unsafe"
)

type frame struct {
	Name, File string
	Line       int
}

type report struct {
	PCs    []uintptr          // as runtime.Callers gives them
	Frames []frame            // one for each of them
	Reach  map[string]uintptr // dynamic type to the function that a call of visit reaches
}

type shape interface{ visit(func()) }

type square struct{ side int }

// visit has a value receiver: called through a pointer in an interface, it is
// called by a wrapper.
//
//go:noinline
func (s square) visit(f func()) { leaf(f) }

func leaf(f func()) { f() } // inlined into visit

// promoted gets visit from its embedded field, forwarding from an interface.
type promoted struct {
	id int
	square
}

type forwarding struct{ shape }

type list[T any] struct{ items []T }

//go:noinline
func (l *list[T]) visit(f func()) {
	for range l.items {
		f()
	}
}

// reach reads from the method table of an interface where a call of its first
// method goes.
func reach(s shape) uintptr {
	table := *(*unsafe.Pointer)(unsafe.Pointer(&s))
	return *(*uintptr)(unsafe.Add(table, 24))
}

// targets returns the functions that calls reach, by the dynamic type.
func targets() map[string]uintptr {
	at := make(map[string]uintptr)
	for _, s := range []shape{square{}, &square{}, promoted{}, &promoted{}, forwarding{}, &list[int]{}, &list[string]{}, struct{ *square }{}, struct {
		promoted
		x int
	}{}} {
		at[reflect.TypeOf(s).String()] = reach(s)
	}
	return at
}

//go:noinline
func apply[T any](v T, f func(T)) { f(v) }

func middle(s shape, f func()) { // inlined into main's closure
	s.visit(f)
}

func main() {
	var r report
	apply(shape(&square{side: 2}), func(s shape) {
		middle(s, func() { r = stack() })
	})
	r.Reach = targets()
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		os.Exit(1)
	}
	io.Copy(io.Discard, os.Stdin)
}

//go:noinline
func stack() report {
	pcs := make([]uintptr, 64)
	r := report{PCs: pcs[:runtime.Callers(1, pcs)]}
	for frames, more := runtime.CallersFrames(r.PCs), true; more; {
		var f runtime.Frame
		f, more = frames.Next()
		r.Frames = append(r.Frames, frame{f.Function, f.File, f.Line})
	}
	return r
}
