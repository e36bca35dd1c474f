package view

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
)

// positions are methods of every coordinate, each with a call at an offset.
func positions() (names *ccmap.Names, of func(name string, offset uint32) ccmap.Frame) {
	names = ccmap.NewNames()
	for _, m := range []ccmap.Method{
		{Name: "go", File: "main.go", StartLine: 10},
		{Name: "script", File: "x.py"},
		{Name: "folded"},
		{Name: "fib", File: "fib.c", StartLine: 3, Coordinate: ccmap.CoordinateBytecode},
		{Name: "$7", Coordinate: ccmap.CoordinateBytecode},
	} {
		names.Intern(m)
	}
	of = func(name string, offset uint32) ccmap.Frame {
		id, _ := names.Lookup(name, "")
		return ccmap.Frame{Method: id, Offset: offset}
	}
	names.SetLine(of("fib", 60), 5)
	return names, of
}

func TestFormatLocation(t *testing.T) {
	t.Parallel()
	names, of := positions()
	for _, c := range []struct {
		ccmap.Frame
		location, call string
		json           place
	}{
		{of("go", 0), "main.go:10", ":10", place{line: 10}},
		{of("go", 5), "main.go:15", ":15", place{line: 15}},
		{of("go", 1<<32-3), "main.go:7", ":7", place{line: 7}},
		{of("go", ccmap.NoOffset), "main.go", "", place{}},
		{of("script", 11), "x.py:12", ":12", place{line: 12}},
		{of("folded", 3), "+3", "+3", place{position: "+3"}},
		{of("folded", 1<<32-3), "-3", "-3", place{position: "-3"}},
		{of("fib", 60), "fib.c:5", ":5", place{line: 5, position: "+0x3c"}},
		{of("fib", 61), "fib.c+0x3d", "+0x3d", place{position: "+0x3d"}},
		{of("fib", ccmap.NoOffset), "fib.c", "", place{}},
		{of("$7", 60), "+0x3c", "+0x3c", place{position: "+0x3c"}},
	} {
		if got := formatLocation(names, c.Frame); got != c.location {
			t.Errorf("location of %+v: %q, want %q", c.Frame, got, c.location)
		}
		if got := formatCall(names, c.Frame); got != c.call {
			t.Errorf("call at %+v: %q, want %q", c.Frame, got, c.call)
		}
		m := names.At(c.Method)
		c.json.Method, c.json.location = m, c.location
		if got := *calledAt(names, c.Frame); got != c.json {
			t.Errorf("place of %+v: %+v, want %+v", c.Frame, got, c.json)
		}
	}
}

func TestFormatDeclaration(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]ccmap.Method{
		"fib.c:3": {Name: "fib", File: "fib.c", StartLine: 3, Coordinate: ccmap.CoordinateBytecode},
		"fib.c":   {Name: "fib", File: "fib.c"},
		"":        {Name: "fib", StartLine: 3},
	} {
		if got := formatDeclaration(m); got != want {
			t.Errorf("declaration of %+v: %q, want %q", m, got, want)
		}
	}
}

func TestFormatLines(t *testing.T) {
	t.Parallel()
	names, of := positions()
	for _, c := range []struct {
		begin, end ccmap.Frame
		want       string
	}{
		{of("go", 2), of("go", 2), "main.go:12"},
		{of("go", 2), of("go", 5), "main.go:12-15"},
		{of("go", ccmap.NoOffset), of("go", ccmap.NoOffset), "main.go"},
		{of("script", 2), of("script", 5), "x.py:+2-5"},
		{of("folded", 2), of("folded", 2), "+2"},
		{of("fib", 60), of("fib", 60), "fib.c:5"},
		{of("$7", 60), of("$7", 60), "+0x3c"},
	} {
		q := ccmap.Point{Method: c.begin.Method, Offset: c.begin.Offset, End: c.end.Offset}
		if got := formatLines(names, q); got != c.want {
			t.Errorf("lines of %+v: %q, want %q", q, got, c.want)
		}
	}
}

func TestMethodTitle(t *testing.T) {
	t.Parallel()
	for want, m := range map[string]ccmap.Method{
		"[kernel]":            {Name: ccmap.KernelName},
		"[kernel] read":       {Name: ccmap.KernelName, Signature: "read"},
		"[unknown]":           {Name: ccmap.UnknownName},
		"[unknown] libc.so.6": {Name: ccmap.UnknownName, Signature: "/lib/libc.so.6"},
		"f":                   {Name: "f", Signature: "(I)V"},
	} {
		if got := methodTitle(m); got != want {
			t.Errorf("%q %q is printed as %q, want %q", m.Name, m.Signature, got, want)
		}
	}
}

// A Java method is printed with its parameters where another one has its name.
func TestOverloads(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	java := func(name, signature string) ccmap.Method {
		method := ccmap.Method{Name: name, Signature: signature, Coordinate: ccmap.CoordinateBytecode}
		m.Names().Intern(method)
		return method
	}
	p := New("", m.Snapshot())
	for want, method := range map[string]ccmap.Method{
		"A.put(int)":    java("A.put", "(I)V"),
		"A.put(String)": java("A.put", "(Ljava/lang/String;)V"),
		"A.get":         java("A.get", "(I)V"),
	} {
		if got := p.title(method); got != want {
			t.Errorf("%s%s is printed as %q, want %q", method.Name, method.Signature, got, want)
		}
	}
}
