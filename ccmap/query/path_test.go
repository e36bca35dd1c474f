package query

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]Path{
		"A":                               {{Name: "A"}},
		"A > B > C":                       {{Name: "A"}, {Name: "B"}, {Name: "C"}},
		"\tA\n >   B ":                    {{Name: "A"}, {Name: "B"}},
		"A:123 > B":                       {{Name: "A", Line: 123}, {Name: "B"}},
		"A > B:7 > C":                     {{Name: "A"}, {Name: "B", Line: 7}, {Name: "C"}},
		"type:.eq.main.T > B":             {{Name: "type:.eq.main.T"}, {Name: "B"}},
		"type:.eq.main.T:3 > B":           {{Name: "type:.eq.main.T", Line: 3}, {Name: "B"}},
		"main.F[chan<-  int] > B":         {{Name: "main.F[chan<- int]"}, {Name: "B"}},
		"java/lang/Object.<init> > B":     {{Name: "java/lang/Object.<init>"}, {Name: "B"}},
		"main.F[struct { A int }]:9 > B":  {{Name: "main.F[struct { A int }]", Line: 9}, {Name: "B"}},
		"A>B":                             {{Name: "A>B"}},
		"A:+0x3c > B":                     {{Name: "A", AtOffset: true, Offset: 60}, {Name: "B"}},
		"A:+60 > B":                       {{Name: "A", AtOffset: true, Offset: 60}, {Name: "B"}},
		"A:-2 > B":                        {{Name: "A", AtOffset: true, Offset: 1<<32 - 2}, {Name: "B"}},
		"A:+0x > B:+0xg > C:+":            {{Name: "A:+0x"}, {Name: "B:+0xg"}, {Name: "C:+"}},
		`^main\.(handle|serve)$:10 > io.`: {{Name: `^main\.(handle|serve)$`, Line: 10}, {Name: "io."}},
	} {
		got, err := ParsePath(in)
		if err != nil {
			t.Errorf("ParsePath(%q): %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("ParsePath(%q) (-want +got):\n%s", in, diff)
		}
	}
}

func TestParsePathErrors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                   "element 1: no method name",
		"  ":                 "element 1: no method name",
		"> A":                "element 1: no method name",
		"A >":                "element 2: no method name",
		"A > > B":            "element 2: no method name",
		":12 > B":            "element 1: no method name",
		"A:0 > B":            "line 0 is not from 1",
		"A:2147483648 > B":   "line 2147483648 is not from 1",
		"A > B:12":           `"B:12" is the last element and calls nothing`,
		"A:99999999999 > B":  "line 99999999999 is not from 1",
		"A > B:+0x3c":        `"B:+60" is the last element and calls nothing: a line is that of a call, as in 'A:+60 > B'`,
		"A:+0x100000000 > B": "offset +0x100000000 is not a number of 32 bits",
		"A:-1 > B":           "offset -1 is not a number of 32 bits",
	} {
		_, err := ParsePath(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParsePath(%q): error %v, want one with %q", in, err, want)
		}
	}
}

// FuzzParsePath: whatever parses prints as a path that parses to the same.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"A", "A > B:7 > C", "A >", "type:.eq.T:3 > x y", ":1 > :2", "A: > B", "A ::1 > B", "A:+0x3c > B", "A:-2 > B", "A:+0xffffffff > B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		path, err := ParsePath(s)
		if err != nil {
			return
		}
		printed := path.String()
		again, err := ParsePath(printed)
		if err != nil {
			t.Fatalf("ParsePath(%q) prints as %q: %v", s, printed, err)
		}
		if diff := cmp.Diff(path, again); diff != "" {
			t.Fatalf("ParsePath(%q) prints as %q (-first +second):\n%s", s, printed, diff)
		}
	})
}
