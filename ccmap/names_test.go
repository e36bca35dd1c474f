package ccmap_test

import (
	"fmt"
	"strconv"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestNamesIdentity(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	first := ccmap.Method{Name: "f", Signature: "()V", File: "f.go", StartLine: 3}
	id := names.Intern(first)
	if again := names.Intern(ccmap.Method{Name: "f", Signature: "()V", File: "g.go"}); again != id {
		t.Errorf("the same name and signature have ids %d and %d", id, again)
	}
	if names.At(id) != first {
		t.Errorf("At(%d) = %+v, want the first description", id, names.At(id))
	}
	if other := names.Intern(ccmap.Method{Name: "f", Signature: "(I)V"}); other == id {
		t.Error("another signature is the same method")
	}
	if got, ok := names.Lookup("f", "()V"); got != id || !ok {
		t.Errorf("Lookup = %d, %t", got, ok)
	}
	if _, ok := names.Lookup("g", ""); ok || names.Len() != int(ccmap.FirstID)+2 {
		t.Errorf("Lookup finds a method that was not added, of %d", names.Len())
	}
}

// TestNamesHammer lets goroutines intern the same names and read them.
func TestNamesHammer(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 2000 {
				name := fmt.Sprint(i % 500)
				if id := names.Intern(ccmap.Method{Name: name, Body: uint64(i%500 + 1)}); names.At(id).Name != name || names.At(id).Body != uint64(i%500+1) {
					t.Errorf("id %d is %q, want %q", id, names.At(id).Name, name)
				}
			}
		})
	}
	all.Wait()
	if names.Len() != int(ccmap.FirstID)+500 {
		t.Errorf("%d names, want 500", names.Len())
	}
}

// TestTitle: a system call is part of the title, and a method of its own.
func TestTitle(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	for _, c := range []struct {
		ccmap.Method
		kernel bool
		title  string
	}{
		{ccmap.Method{Name: ccmap.KernelName}, true, "[kernel]"},
		{ccmap.Method{Name: ccmap.KernelName, Signature: "read"}, true, "[kernel] read"},
		{ccmap.Method{Name: ccmap.UnknownName, Signature: "/lib/x.so"}, false, "[unknown]"},
		{ccmap.Method{Name: "f", Signature: "(I)V"}, false, "f"},
	} {
		if c.IsKernel() != c.kernel || c.Title() != c.title {
			t.Errorf("%q %q: kernel %v, title %q", c.Name, c.Signature, c.IsKernel(), c.Title())
		}
		if isPlain := names.Intern(c.Method) == ccmap.KernelID; isPlain != (c.title == "[kernel]") {
			t.Errorf("%s has the id of the kernel: %v", c.title, isPlain)
		}
	}
}

// TestBodies: two bodies of one method do not merge silently, in whatever order they come.
func TestBodies(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		bodies []uint64
		want   uint64
	}{
		{nil, 0},
		{[]uint64{0, 0}, 0},
		{[]uint64{7}, 7},
		{[]uint64{0, 7, 0}, 7},
		{[]uint64{7, 7}, 7},
		{[]uint64{7, 8}, ccmap.MixedBodies},
		{[]uint64{8, 0, 7, 8}, ccmap.MixedBodies},
		{[]uint64{ccmap.MixedBodies, 7}, ccmap.MixedBodies},
	} {
		names := ccmap.NewNames()
		first := ccmap.Method{Name: "f", File: "f.go"}
		id := names.Intern(first)
		for _, body := range c.bodies {
			names.Intern(ccmap.Method{Name: "f", File: "other.go", Body: body})
			names.Intern(ccmap.Method{Name: fmt.Sprint("later ", names.Len())})
		}
		first.Body = c.want
		if got := names.At(id); got != first {
			t.Errorf("bodies %v: %+v, want %+v", c.bodies, got, first)
		}
		before := names.Bytes()
		for _, body := range c.bodies {
			names.SetBody(id, body)
		}
		if names.At(id) != first || names.Bytes() != before {
			t.Errorf("bodies %v, once more: %+v", c.bodies, names.At(id))
		}
	}
	ccmap.NewNames().SetBody(99, 1) // of no method
}

// TestBodiesMerge: the sum of two builds trusts no method that differs.
func TestBodiesMerge(t *testing.T) {
	t.Parallel()
	build := func(same, changed, first uint64) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		at := ccmap.NodeID(0)
		for name, body := range map[string]uint64{"same": same, "changed": changed, "first": first} {
			at = m.Child(at, ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: name, Body: body}))
		}
		m.Add(at, ccmap.Counters{Samples: 1})
		return m.Snapshot()
	}
	want := map[string]uint64{"same": 1, "changed": ccmap.MixedBodies, "first": 4}
	one, other := build(1, 2, 0), build(1, 3, 4)
	for _, order := range [][]*ccmap.Snapshot{{one, other}, {other, one}} {
		sum := ccmap.New(ccmap.Options{})
		for _, s := range order {
			if err := sum.Merge(s); err != nil {
				t.Fatal(err)
			}
		}
		for name, body := range want {
			id, _ := sum.Names().Lookup(name, "")
			if got := sum.Names().At(id).Body; got != body {
				t.Errorf("%s has the body %#x, want %#x", name, got, body)
			}
		}
	}
}

// TestNamesComeMeanwhile: names that come while a snapshot is read, of samples that come after it, change nothing in it.
func TestNamesComeMeanwhile(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	m := ccmap.New(ccmap.Options{Names: names})
	main := names.Intern(ccmap.Method{Name: "main"})
	samples := int64(0)
	const most = 100_000
	var more sync.WaitGroup
	more.Go(func() {
		for i := range most {
			names.Intern(ccmap.Method{Name: strconv.Itoa(i)})
		}
	})
	for names.Len() < most {
		for _, first := range []func(s *ccmap.Snapshot){
			func(s *ccmap.Snapshot) { s.Method(main) }, func(s *ccmap.Snapshot) { s.Cumulative() },
		} {
			m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: main}}, Weight: 1, Fresh: ccmap.FreshUnknown})
			samples++
			s := m.Snapshot()
			first(s)
			if p, ok := s.Method(main); !ok || p.Cumulative().Samples != samples || s.Cumulative()[main].Samples != samples {
				t.Fatalf("%d samples are %+v", samples, p.Cumulative())
			}
		}
	}
	more.Wait()
}
