package hotspot

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func method(t testing.TB, text string) Method {
	t.Helper()
	m, err := ParseMethod(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

// workHints are those of the program Work.
func workHints(t testing.TB) []Hint {
	circles, call := method(t, "p.Work.circles([Lp/Work$Shape;I)I"), method(t, "p.Work.call(Lp/Work$Shape;)I")
	return []Hint{
		{Inline, call, circles, 14, circles, 50, 1.5, "has 2 receivers,\nand \"1\" here", 0, nil},
		{KeepOut, method(t, "p.Work$Sq.<init>()V"), call, 2, circles, 50, 1.5, "why", 0, nil},
		{Inline, call, method(t, "p.Work.main()V"), 3, method(t, "p.Work.main()V"), 2, 1.5, "why", 3, nil},
	}
}

func TestWriteDirectives(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteDirectives(&out, workHints(t)); err != nil {
		t.Fatal(err)
	}
	const want = `[
  // inline p.Work.call at p.Work.circles:14: has 2 receivers, and "1" here
  // keep out p.Work$Sq.<init> at p.Work.call:2: why
  {"match":["p/Work.circles([Lp/Work$Shape;I)I"],"c2":{"inline":["+p/Work.call(Lp/Work$Shape;)I","-p/Work$Sq.<init>()V"]}}
,
  // inline p.Work.call at p.Work.main:3: why
  {"match":["p/Work.main()V"],"c2":{"inline":["+p/Work.call(Lp/Work$Shape;)I"]}}
]
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestWriteCommands(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := WriteCommands(&out, workHints(t)); err != nil {
		t.Fatal(err)
	}
	const want = `# These commands hold for compilations of all methods. Directives hold for one: prefer them.
# inline p.Work.call at p.Work.circles:14: has 2 receivers, and "1" here
inline p/Work.call(Lp/Work$Shape;)I
# not for all methods: keep out p.Work$Sq.<init> at p.Work.call:2: why
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// What is no method alone, or has characters that mean more in a pattern or a file, is refused.
func TestParseMethod(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{
		"", "f", "f()V", ".f()V", "A.f", "A.()V", "A.f*()V", "A*.f()V", "A.f()V\nquiet", "A.f \"()V", "A.f\\()V", "A.<f>()V",
		"A.f(Lx,y;)V", "A$$Lambda.run()V", "jdk.proxy.$Proxy.equals(I)Z", "A.f()V\xff", strings.Repeat("A", 1000) + ".f()V",
		"A.f(" + strings.Repeat("I", 256) + ")V",
	} {
		if m, err := ParseMethod(bad); !errors.Is(err, errPattern) {
			t.Errorf("%.40q is %+v, %v", bad, m, err)
		}
	}
	for text, want := range map[string]string{
		"java.util.Map$Entry.<init>([[Ljava/lang/Object;J)V": "java/util/Map$Entry.<init>([[Ljava/lang/Object;J)V",
		"A.größe()I": "A.größe()I",
	} {
		if m := method(t, text); m.pattern() != want || m.String() != text {
			t.Errorf("%s is %s, %s", text, m, m.pattern())
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	hints := workHints(t)
	text, err := json.Marshal(NewFile(hints, []string{"why not"}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := ReadFile(bytes.NewReader(text))
	if diff := cmp.Diff(hints, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	for what, bad := range map[string]string{
		"a profile": `{"schema":"x","hints":[]}`,
		"a version": strings.Replace(string(text), `"version":1`, `"version":2`, 1),
		"an action": strings.Replace(string(text), `"inline"`, `"exclude"`, 1),
		"a root":    strings.Replace(string(text), `"root"`, `"boot"`, 1),
		"a pattern": strings.Replace(string(text), `p.Work.main`, `*.main`, 1),
		"a number":  strings.Replace(string(text), `:14`, `:-1`, 1),
		"a count":   strings.Replace(string(text), `"thrown_before":3`, `"thrown_before":-3`, 1),
		"too large": string(text) + strings.Repeat(" ", largestFile),
	} {
		if bad == string(text) {
			t.Fatalf("%s: nothing is changed", what)
		}
		if got, err := ReadFile(strings.NewReader(bad)); err == nil {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// FuzzReadFile: a file is refused, or its hints are written and read back the same.
func FuzzReadFile(f *testing.F) {
	text, err := json.Marshal(NewFile(workHints(f), nil))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":"ccmapd-hints","version":1,"hints":[{}]}`))
	f.Add([]byte(`[{"match":"a.b"}]`))
	f.Fuzz(func(t *testing.T, text []byte) {
		hints, err := ReadFile(bytes.NewReader(text))
		if err != nil {
			return
		}
		again, err := json.Marshal(NewFile(hints, nil))
		if err != nil {
			t.Fatal(err)
		}
		if back, err := ReadFile(bytes.NewReader(again)); err != nil || len(hints) > 0 && !cmp.Equal(hints, back) {
			t.Errorf("%v: %+v is %+v", err, hints, back)
		}
		var out bytes.Buffer
		if err := WriteDirectives(&out, hints); err != nil {
			t.Fatal(err)
		}
		roots := 0
		for line := range strings.Lines(out.String()) { // comments and objects alone, whatever names there are
			switch {
			case strings.HasPrefix(line, "  {"):
				roots++
				if !json.Valid([]byte(line)) {
					t.Errorf("%q is no JSON", line)
				}
			case !strings.HasPrefix(line, "  // ") && strings.TrimSpace(line) != "," && strings.TrimSpace(line) != "[" && strings.TrimSpace(line) != "]":
				t.Errorf("a line %q", line)
			}
		}
		if roots != len(Roots(hints)) {
			t.Errorf("%d directives, want %d", roots, len(Roots(hints)))
		}
	})
}
