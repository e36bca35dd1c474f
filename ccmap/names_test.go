package ccmap_test

import (
	"fmt"
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
				if id := names.Intern(ccmap.Method{Name: name}); names.At(id).Name != name {
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
