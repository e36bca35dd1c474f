package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/moments"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
)

var timeOfStore = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

// keep makes a store with two hours of a target web: a of main, and in the second hour mostly b.
func keep(t *testing.T, dir string) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var all []ccmap.Moment
	m := ccmap.New(ccmap.Options{Moments: func(m ccmap.Moment) { all = append(all, m) }})
	id := func(name string) ccmap.MethodID { return m.Names().Intern(ccmap.Method{Name: name}) }
	for i := range 7200 {
		callee := id("main.a")
		if i > 3600 && i%4 > 0 {
			callee = id("main.b")
		}
		m.Fold(&ccmap.Sample{
			Frames: []ccmap.Frame{{Method: callee, Offset: 1}, {Method: id("main.main"), Offset: 2}}, Weight: 1 << 24,
			Time: timeOfStore.Add(time.Duration(i) * time.Second).UnixNano(), Fresh: ccmap.FreshUnknown,
		})
	}
	k := store.Key{Target: "web", Build: "b1", Owner: process.Unowned}
	if _, err := s.File(k, timeOfStore, timeOfStore.Add(2*time.Hour), m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	name, err := s.BeginMoments(k, timeOfStore)
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := moments.Write(&file, slices.Values(all)); err != nil {
		t.Fatal(err)
	}
	if err := s.AppendMoments(name, file.Bytes()); err != nil {
		t.Fatal(err)
	}
}

// start starts ccmapd, and ends it with the test. It returns what a line of its messages has after a text.
func start(t *testing.T, after string, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(ccmapd, args...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(os.Interrupt)
		cmd.Wait() // a signal ends it
	})
	var seen []string
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if _, rest, ok := strings.Cut(lines.Text(), after); ok {
			go io.Copy(io.Discard, out)
			return rest
		}
	}
	t.Fatalf("ccmapd %v has not said %q:\n%s", args, after, strings.Join(seen, "\n"))
	return ""
}

// TestTime: the heat map has the figures of the command. A time that is chosen by keys is in the address, has its flame
// graph, and is compared with another one.
func TestTime(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	keep(t, filepath.Join(dir, "store"))
	config := fmt.Sprintf("[listen]\nsocket = %q\ngroup = \"\"\n[store]\nfiles = true\ndir = %q\nkeep = \"0\"\nmoments = \"0\"\n", dir+"/socket", dir+"/store")
	if err := os.WriteFile(dir+"/ccmapd.toml", []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"CCMAPD_SOCKET=" + dir + "/socket"}
	start(t, "socket", env, "serve", "--config", dir+"/ccmapd.toml")
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(dir + "/socket"); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the daemon does not listen")
		}
	}
	const span = "span:web@2026-11-20T10:00:00Z..2026-11-20T12:00:00Z"
	tb := open(t, "http://"+start(t, "  http://", env, "ui", "--no-open", "@"+span))
	page := "/p/" + strings.NewReplacer(":", "%3A", "@", "%40").Replace(span) + "/time"
	tb.do(chromedp.Evaluate[chromedp.Void](`void (history.pushState(null, "", ` + quote(page+"?path=main.b") + `), dispatchEvent(new PopStateEvent("popstate")))`))
	tb.wait(`Number(document.querySelector(".heat")?.dataset.drawn) > 0`)
	got := rows(tb, "times, UTC")
	var want struct {
		Values []int64 `json:"values"`
		Focus  []int64 `json:"focus_values"`
		Column int64   `json:"column_ns"`
	}
	cmd := exec.Command(ccmapd, "heat", "--json", "@"+span, "main.b")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	decode(t, out, &want)
	if drawn := eval[int](tb, `Number(document.querySelector(".heat").dataset.drawn)`); drawn != len(want.Values) || drawn != 720*60 || want.Column != 10e9 {
		t.Errorf("%d cells are drawn, the command has %d, of %d ns a column", drawn, len(want.Values), want.Column)
	}
	step := (len(want.Values)/60 + 95) / 96 * 60 // cells of a line of the table
	for i, r := range got {
		var all, of int64
		for k := i * step; k < min((i+1)*step, len(want.Values)); k++ {
			all, of = all+want.Values[k], of+want.Focus[k]
		}
		if r[3] != share(100*float64(of)/float64(all)) {
			t.Errorf("the page has %q, the command %d of %d", r, of, all)
		}
	}
	if len(got) != 90 {
		t.Errorf("the table has %d lines", len(got))
	}
	choose := func(name string, line int) {
		t.Helper()
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`void document.querySelectorAll('input[name=%s]')[%d].focus()`, name, line)), chromedp.KeyEvent(" "))
	}
	choose("select", 60)
	tb.wait(`new URLSearchParams(location.search).get("a") === "2026-11-20T11:20:00.000Z..2026-11-20T11:21:20.000Z"`)
	tb.wait(`document.body.dataset.state === "shown" && document.querySelectorAll(".actions a").length === 2`)
	choose("base", 10)
	tb.wait(`new URLSearchParams(location.search).has("b") && [...document.querySelectorAll(".actions a")].length === 3`)
	tb.do(chromedp.Evaluate[chromedp.Void](`void [...document.querySelectorAll(".actions a")].at(-1).focus()`), chromedp.KeyEvent(kb.Enter))
	tb.wait(`location.pathname === "/compare" && document.body.dataset.state === "shown" && document.querySelector(".verdict")`)
	tb.do(chromedp.NavigateBack())
	tb.wait(`location.pathname.endsWith("/time") && document.querySelectorAll(".actions a").length === 3`)
	tb.drag(".heat canvas", 0.2505, 0.251) // within a column of ten seconds, in the middle of its cells
	tb.wait(`new URLSearchParams(location.search).get("a")?.startsWith("2026-11-20T10:30:05")`)
	tb.do(chromedp.NavigateBack())
	tb.wait(`new URLSearchParams(location.search).get("a")?.startsWith("2026-11-20T11:20") && document.querySelectorAll(".actions a").length === 3`)
	tb.do(chromedp.Evaluate[chromedp.Void](`void document.querySelector(".actions a").click()`))
	tb.wait(`location.pathname.endsWith("/flame") && document.querySelector(".strip")?.textContent.includes("80 samples")`)
}

// TestSave: a graph is saved as SVG, in which hostile names are text, and as PNG.
func TestSave(t *testing.T) {
	t.Parallel()
	tb := open(t, page(t, folded(t, `main;<script>alert(1)</script>;b 5`, "main;\"&'<g onload=alert(1)> 4")))
	eval[bool](tb, `URL.createObjectURL = (blob) => { blob.text().then((text) => { globalThis.saved = { type: blob.type, text }; }); return "#"; }, true`)
	for i, want := range []string{"image/svg+xml", "image/png"} {
		eval[bool](tb, fmt.Sprintf(`(delete globalThis.saved, document.querySelectorAll(".save button")[%d].click(), true)`, i))
		tb.wait(`globalThis.saved`)
		if got := eval[string](tb, `saved.type`); got != want {
			t.Errorf("saved as %s, want %s", got, want)
		}
		if text := eval[string](tb, `saved.text.slice(0, 4)`); i == 1 && !strings.HasSuffix(text, "PNG") {
			t.Errorf("PNG begins with %q", text)
		}
		if i > 0 {
			continue
		}
		tags, texts := elementsOf(t, eval[string](tb, `saved.text`))
		if got := strings.Join(tags, " "); got != "path pattern rect svg text" {
			t.Errorf("the picture has elements %s", got)
		}
		if !slices.Contains(texts, "main") || !slices.ContainsFunc(texts, func(s string) bool { return strings.Contains(s, "<script>") }) {
			t.Errorf("the picture has %q", texts)
		}
	}
}

// elementsOf returns the names of the elements of an XML document, each once in order, and its texts.
func elementsOf(t *testing.T, document string) (names, texts []string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(document))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			slices.Sort(names)
			return slices.Compact(names), texts
		}
		if err != nil {
			t.Fatalf("%v: %.300s", err, document)
		}
		switch token := token.(type) {
		case xml.StartElement:
			names = append(names, token.Name.Local)
		case xml.CharData:
			texts = append(texts, string(token))
		}
	}
}

// TestSource: the lines of a method stand beside its source, if the user names the directory, and alone if not.
func TestSource(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.MkdirAll(dir+"/pkg", 0o755); err != nil {
		t.Fatal(err)
	}
	text := "package pkg\n\nfunc f() {\n\tg() // <img src=x onerror=alert(1)>\n}\n"
	if err := os.WriteFile(dir+"/pkg/f.go", []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	profile := filepath.Join(t.TempDir(), "p.json")
	const document = `{"ccmap_version":1,"activations_exact":false,"meta":{"target":{},"loss":{}},
"methods":[{"name":"f","file":"/build/pkg/f.go","start_line":3},{"name":"g"}],
"nodes":[{"parent":0,"method":0},{"parent":1,"offset":1,"method":1,"samples":9,"time_ns":90}]}`
	if err := os.WriteFile(profile, []byte(document), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"--source", dir}, nil} {
		tb := open(t, "http://"+start(t, "  http://", nil, append([]string{"ui", "--no-open", profile}, args...)...))
		tb.do(chromedp.Evaluate[chromedp.Void](`void (history.pushState(null, "", "/p/file%3A1/query?path=f"), dispatchEvent(new PopStateEvent("popstate")))`))
		tb.wait(`[...document.querySelectorAll("caption")].some((c) => c.textContent.startsWith("lines"))`)
		at4 := make([]string, 2)
		for _, r := range rows(tb, "lines") {
			if r[0] == "4" {
				at4 = r
			}
		}
		want := []string{"4", at4[1], "90.0 ns", "100.0 %", "    g() // <img src=x onerror=alert(1)>"}
		if args == nil {
			want = want[:4]
		}
		if !slices.Equal(at4, want) {
			t.Errorf("ui %v: line 4 is %q, want %q", args, at4, want)
		}
		if n := eval[int](tb, `document.querySelectorAll("img").length`); n != 0 {
			t.Error("a source line has become an element")
		}
	}
}

// TestPagesAreForgotten: a page that is shown no more leaves no elements behind.
func TestPagesAreForgotten(t *testing.T) {
	t.Parallel()
	tb := open(t, page(t, session+"web.pb.gz"))
	nodes := func(views int) (count float64) {
		t.Helper()
		for range views {
			tb.goTo("/p/file:1/top")
			tb.goTo("/p/file:1/flame")
		}
		tb.do(func(ctx context.Context, target *chromedp.Target) (none chromedp.Void, err error) {
			if _, err = cdp.Call(ctx, target, performance.Enable, performance.EnableParams{}); err != nil {
				return none, err
			}
			if _, err = cdp.Call(ctx, target, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
				return none, err
			}
			all, err := cdp.Call(ctx, target, performance.GetMetrics, cdp.Empty{})
			for _, m := range all.Metrics {
				if m.Name == "Nodes" {
					count = m.Value
				}
			}
			return none, err
		})
		return count
	}
	few := nodes(2)
	nodes(10)
	tb.waitFor(func() bool { return few > 0 && nodes(0) <= 1.5*few }) // a busy browser collects late
}
