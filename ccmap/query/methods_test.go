package query

import (
	"regexp"
	"slices"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
)

func namesOf(names ...string) *ccmap.Names {
	table := ccmap.NewNames()
	for _, name := range names {
		table.Intern(ccmap.Method{Name: name})
	}
	return table
}

var exampleNames = []string{
	"main.main", "main.(*Server).handle", "main.(*Client).handle", "net/http.(*conn).serve",
	"example.com/x/server.Map[go.shape.int]", "example.com/x/server.Map[go.shape.string].func1", "type:.eq.main.T",
	"main.Observer.handler",
}

func TestResolve(t *testing.T) {
	t.Parallel()
	names := namesOf(exampleNames...)
	for text, want := range map[string]string{
		"main.main":                "main.main",
		"main":                     "main.main",
		"Server.handle":            "main.(*Server).handle",
		"(*Server).handle":         "main.(*Server).handle",
		"http.conn.serve":          "net/http.(*conn).serve",
		"net/http.(*conn).serve":   "net/http.(*conn).serve",
		"serve":                    "net/http.(*conn).serve",
		"server.Map":               "example.com/x/server.Map[go.shape.int]",
		"Map.func1":                "example.com/x/server.Map[go.shape.string].func1",
		"type:.eq.main.T":          "type:.eq.main.T",
		"example.com/x/server.Map": "example.com/x/server.Map[go.shape.int]",
	} {
		got, err := resolve(names, text)
		if err != nil || got != want {
			t.Errorf("resolve(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

// TestResolveAsWritten: a method of a value has a wrapper for its pointer.
func TestResolveAsWritten(t *testing.T) {
	t.Parallel()
	names := namesOf("main.T.f", "main.(*T).f", "main.U.g", "x.U.g")
	for text, want := range map[string]string{"T.f": "main.T.f", "(*T).f": "main.(*T).f", "U.g": "", "f": ""} {
		got, err := resolve(names, text)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("resolve(%q) = %q, %v, want %q", text, got, err, want)
		}
	}
}

func TestResolveErrors(t *testing.T) {
	t.Parallel()
	names := namesOf(exampleNames...)
	for text, want := range map[string]struct {
		message    string
		code       advice.Code
		candidates []string
	}{
		"handle":      {`2 methods are called "handle"`, advice.CodeAmbiguousMethod, []string{"main.(*Client).handle", "main.(*Server).handle"}},
		"Server.hand": {`no method "Server.hand" in the profile`, advice.CodeNoMethod, []string{"main.(*Server).handle", "main.Observer.handler"}},
		"srve":        {`no method "srve" in the profile`, advice.CodeNoMethod, []string{"net/http.(*conn).serve"}},
		"quux":        {`no method "quux" in the profile`, advice.CodeNoMethod, []string{}},
	} {
		_, err := resolve(names, text)
		e := advice.Coded(err)
		if e == nil || err.Error() != want.message || e.Code != want.code || !slices.Equal(e.Candidates, want.candidates) {
			t.Errorf("resolve(%q): %+v, want %+v", text, e, want)
		}
	}
	if _, err := resolve(names, ""); advice.Coded(err) == nil {
		t.Errorf("of no text: %v", err)
	}
}

func TestMatching(t *testing.T) {
	t.Parallel()
	names := namesOf(exampleNames...)
	set, err := Matching(names, regexp.MustCompile(`\.handle$`))
	if err != nil {
		t.Fatal(err)
	}
	if want := []ccmap.MethodID{ccmap.FirstID + 1, ccmap.FirstID + 2}; !slices.Equal(set.IDs(), want) {
		t.Errorf("methods that match = %v, want %v", set.IDs(), want)
	}
	if set.Has(ccmap.NoMethod) {
		t.Error("the set has NoMethod")
	}
	if _, err := Matching(names, regexp.MustCompile("xyz")); advice.CodeOf(err) != advice.CodeNoMethod || err.Error() != `no method matches "xyz"` {
		t.Errorf("an expression that matches nothing: %v", err)
	}
}

// Methods of one name may have several signatures.
func TestNamed(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	for _, m := range []ccmap.Method{{Name: "x.f", Signature: "int"}, {Name: "x.g"}, {Name: "x.f", Signature: "string"}} {
		names.Intern(m)
	}
	set, err := Named(names, "f")
	if want := []ccmap.MethodID{ccmap.FirstID, ccmap.FirstID + 2}; err != nil || !slices.Equal(set.IDs(), want) {
		t.Errorf("methods = %v, %v, want %v", set.IDs(), err, want)
	}
	if got := set.Names(names); !slices.Equal(got, []string{"x.f"}) {
		t.Errorf("names = %q", got)
	}
}

// TestKernelMethods: the name of the kernel is all time in it, and a title is one system call.
func TestKernelMethods(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	read := names.Intern(ccmap.Method{Name: ccmap.KernelName, Signature: "read"})
	write := names.Intern(ccmap.Method{Name: ccmap.KernelName, Signature: "write"})
	names.Intern(ccmap.Method{Name: "main.read"})
	kernel := []ccmap.MethodID{ccmap.KernelID, read, write}
	for text, want := range map[string][]ccmap.MethodID{"[kernel]": kernel, "[kernel] read": {read}} {
		if set, err := Named(names, text); err != nil || !slices.Equal(set.IDs(), want) {
			t.Errorf("%s is %v, %v, want %v", text, set.IDs(), err, want)
		}
	}
	for text, want := range map[string][]ccmap.MethodID{`^\[kernel\]$`: kernel, `^\[kernel\]`: kernel, "l. write": {write}} {
		if set, err := Matching(names, regexp.MustCompile(text)); err != nil || !slices.Equal(set.IDs(), want) {
			t.Errorf("%s matches %v, %v, want %v", text, set.IDs(), err, want)
		}
	}
	all, err := Named(names, "[kernel]")
	if got, want := all.Names(names), []string{"[kernel]", "[kernel] read", "[kernel] write"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("names = %q, %v, want %q", got, err, want)
	}
}

// A Java method is named with its descriptor or its parameters.
func TestOverloads(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	var ids []ccmap.MethodID
	for _, signature := range []string{"(I)I", "(Ljava/lang/String;)V"} {
		ids = append(ids, names.Intern(ccmap.Method{Name: "org.A.m", Signature: signature, Coordinate: ccmap.CoordinateBytecode}))
	}
	for text, want := range map[string][]ccmap.MethodID{
		"A.m": ids, "A.m(I)I": ids[:1], "org.A.m(int)": ids[:1], "A.m(String)": ids[1:], "m(Ljava/lang/String;)V": ids[1:],
	} {
		if got, err := Named(names, text); err != nil || !slices.Equal(got.IDs(), want) {
			t.Errorf("%q is %v, %v, want %v", text, got.IDs(), err, want)
		}
	}
	for _, text := range []string{"A.m(long)", "(I)I", "B.m(I)I", "((((", "A.m()I"} {
		if set, err := Named(names, text); err == nil {
			t.Errorf("%q is %v", text, set.IDs())
		}
	}
}
