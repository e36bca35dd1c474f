package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParsePath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string][]pathElem{
		"A":                               {{name: "A"}},
		"A > B > C":                       {{name: "A"}, {name: "B"}, {name: "C"}},
		"\tA\n >   B ":                    {{name: "A"}, {name: "B"}},
		"A:123 > B":                       {{name: "A", line: 123}, {name: "B"}},
		"A > B:7 > C":                     {{name: "A"}, {name: "B", line: 7}, {name: "C"}},
		"type:.eq.main.T > B":             {{name: "type:.eq.main.T"}, {name: "B"}},
		"type:.eq.main.T:3 > B":           {{name: "type:.eq.main.T", line: 3}, {name: "B"}},
		"main.F[chan<-  int] > B":         {{name: "main.F[chan<- int]"}, {name: "B"}},
		"java/lang/Object.<init> > B":     {{name: "java/lang/Object.<init>"}, {name: "B"}},
		"main.F[struct { A int }]:9 > B":  {{name: "main.F[struct { A int }]", line: 9}, {name: "B"}},
		"A>B":                             {{name: "A>B"}},
		"A:+0x3c > B":                     {{name: "A", atOffset: true, offset: 60}, {name: "B"}},
		"A:+60 > B":                       {{name: "A", atOffset: true, offset: 60}, {name: "B"}},
		"A:-2 > B":                        {{name: "A", atOffset: true, offset: 1<<32 - 2}, {name: "B"}},
		"A:+0x > B:+0xg > C:+":            {{name: "A:+0x"}, {name: "B:+0xg"}, {name: "C:+"}},
		`^main\.(handle|serve)$:10 > io.`: {{name: `^main\.(handle|serve)$`, line: 10}, {name: "io."}},
	} {
		got, err := parsePath(in)
		if err != nil {
			t.Errorf("parsePath(%q): %v", in, err)
			continue
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(pathElem{})); diff != "" {
			t.Errorf("parsePath(%q) (-want +got):\n%s", in, diff)
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
		"A:+0x100000000 > B": "offset +0x100000000 is none of 32 bits",
		"A:-1 > B":           "offset -1 is none of 32 bits",
	} {
		_, err := parsePath(in)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("parsePath(%q): error %v, want one with %q", in, err, want)
		}
	}
}

// FuzzParsePath: whatever parses prints as a path that parses to the same.
func FuzzParsePath(f *testing.F) {
	for _, s := range []string{"A", "A > B:7 > C", "A >", "type:.eq.T:3 > x y", ":1 > :2", "A: > B", "A ::1 > B", "A:+0x3c > B", "A:-2 > B", "A:+0xffffffff > B"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		path, err := parsePath(s)
		if err != nil {
			return
		}
		printed := make([]string, len(path))
		for i, e := range path {
			printed[i] = e.String()
		}
		again, err := parsePath(strings.Join(printed, " > "))
		if err != nil {
			t.Fatalf("parsePath(%q) prints as %q: %v", s, printed, err)
		}
		if diff := cmp.Diff(path, again, cmp.AllowUnexported(pathElem{})); diff != "" {
			t.Fatalf("parsePath(%q) prints as %q (-first +second):\n%s", s, printed, diff)
		}
	})
}
