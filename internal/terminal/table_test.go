package terminal

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func exampleTable() *Table {
	t := &Table{Columns: []Column{
		{Title: "flat", Right: true},
		{Title: "samples", Right: true, Drop: 1},
		{Title: "method", Shorten: ShortenMethod, Least: 12},
		{Title: "location", Shorten: ShortenLocation, Least: 8, Drop: 2},
	}}
	t.Add("1.23s", "1,230", "net/http.(*conn).serve", "net/http/server.go:2020")
	t.Add("45.6ms", "46", "main.f", "main.go:7")
	return t
}

func TestTableWidths(t *testing.T) {
	t.Parallel()
	for width, want := range map[int]string{
		0: `
  flat  samples  method                  location
 1.23s    1,230  net/http.(*conn).serve  net/http/server.go:2020
45.6ms       46  main.f                  main.go:7
`,
		55: `
  flat  samples  method              location
 1.23s    1,230  http.(*conn).serve  server.go:2020
45.6ms       46  main.f              main.go:7
`,
		31: `
  flat  samples  method
 1.23s    1,230  http.…n).serve
45.6ms       46  main.f
`,
		20: `
  flat  method
 1.23s  http…).serve
45.6ms  main.f
`,
	} {
		var out bytes.Buffer
		if err := exampleTable().write(&out, width); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[1:], trimRight(out.String())); diff != "" {
			t.Errorf("width %d (-want +got):\n%s", width, diff)
		}
	}
}

func TestTableDropsWhatSaysNothing(t *testing.T) {
	t.Parallel()
	tab := &Table{Columns: exampleTable().Columns}
	tab.Add("1s", Unknown, "main.f", "")
	tab.Add("2s", "", "main.g")
	var out bytes.Buffer
	if err := tab.write(&out, 0); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("flat  method\n  1s  main.f\n  2s  main.g\n", out.String()); diff != "" {
		t.Errorf("table without samples and locations (-want +got):\n%s", diff)
	}
}

// trimRight takes the padding off every line.
func trimRight(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}

// TestTableFits: a table is never wider than the terminal, as long as what must
// stand in it has room.
func TestTableFits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tab := &Table{Columns: exampleTable().Columns}
		for i := range rapid.IntRange(0, 10).Draw(t, "rows") {
			name := rapid.StringMatching(`[a-z/.()*]{1,60}`).Draw(t, "name")
			tab.Add(fmt.Sprint(i), fmt.Sprint(i*1000), name, name)
		}
		width := rapid.IntRange(len("flat")+len(columnGap)+12, 150).Draw(t, "width")
		var out bytes.Buffer
		if err := tab.write(&out, width); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("line of %d runes at width %d: %q", n, width, line)
			}
		}
	})
}

func TestTableReportsWriteErrors(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	if err := exampleTable().write(full, 0); err == nil {
		t.Error("a table written to a full device: no error")
	}
}

func TestTerminalWidthOfAFile(t *testing.T) {
	t.Parallel()
	if got := Width(&bytes.Buffer{}); got != 0 {
		t.Errorf("width of a buffer = %d, want 0", got)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if got := Width(null); got != 0 {
		t.Errorf("width of %s = %d, want 0", os.DevNull, got)
	}
}

func TestShellQuote(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"demo.pb.gz": "demo.pb.gz", "/tmp/a-b_c.xml": "/tmp/a-b_c.xml", "": "''",
		"main.(*T).f": "'main.(*T).f'", "it's": `'it'\''s'`, "a b": "'a b'", "größe": "'größe'",
	} {
		if got := ShellQuote(text); got != want {
			t.Errorf("%q is quoted as %s, want %s", text, got, want)
		}
	}
}

// TestShellQuoteIsExact: a name that cannot be shown can still be pasted.
func TestShellQuoteIsExact(t *testing.T) {
	t.Parallel()
	if got, want := ShellQuote("a\x1b'\\ü\n"), `$'a\033\047\134\303\274\012'`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
