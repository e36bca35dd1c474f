package browser

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const session = "../../../docs/session/"

// rows are cells of a table by its caption, or of the tree.
func rows(tb *tab, caption string) [][]string {
	tb.t.Helper()
	return eval[[][]string](tb, `[...document.querySelectorAll("table")].filter((t) => t.caption.textContent.startsWith(`+quote(caption)+
		`)).flatMap((t) => [...t.tBodies[0].rows].map((r) => [...r.cells].map((c) => c.textContent)))`)
}

type counters struct {
	Samples int64   `json:"samples"`
	Percent float64 `json:"percent"`
}

func share(percent float64) string {
	if percent != 0 && math.Abs(percent) < 0.1 {
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", percent)
}

// TestFileTop compares the table of methods, which the page computes from its frames, with the command's.
func TestFileTop(t *testing.T) {
	t.Parallel()
	profile := session + "web.pb.gz"
	tb := open(t, page(t, profile))
	tb.goTo("/p/file:1/top")
	tb.checkTop(profile)
}

// checkTop compares a page of hottest methods with the command's.
func (tb *tab) checkTop(profile string) {
	t := tb.t
	t.Helper()
	type row struct {
		Method string   `json:"method"`
		Flat   counters `json:"flat"`
		Cum    counters `json:"cum"`
	}
	want := asked[struct{ Methods []row }](t, "top", "-n", "0", profile)
	byMethod := make(map[string]row)
	for _, r := range want.Methods {
		byMethod[r.Method] = r
	}
	got := rows(tb, "hottest methods")
	if len(got) != min(len(want.Methods), 500) || len(got) == 0 {
		t.Fatalf("the page has %d methods, the command %d", len(got), len(want.Methods))
	}
	for _, r := range got {
		r = withoutNow(r)
		w := byMethod[r[5]]
		if r[1] != share(w.Flat.Percent) || r[3] != share(w.Cum.Percent) || strings.ReplaceAll(r[4], ",", "") != fmt.Sprint(w.Cum.Samples) {
			t.Errorf("the page has %q, the command flat %v, cum %v", r, w.Flat, w.Cum)
		}
	}
}

// withoutNow leaves the two shares of recent time out of a row of the hottest methods, if it has them.
func withoutNow(r []string) []string {
	if len(r) < 8 {
		return r
	}
	return slices.Concat(r[:2], r[3:5], r[6:])
}

// TestFileReceivers compares the receivers of calls, which are in the file, with the command's.
func TestFileReceivers(t *testing.T) {
	t.Parallel()
	profile := session + "eval.xml.zst"
	tb := open(t, page(t, profile))
	tb.goTo("/p/file:1/receivers")
	tb.checkReceivers(profile)
}

// TestFileActivations compares graphs whose width is activations, which the page computes, with the command's: from the
// roots and from the leaves, and of a method both ways.
func TestFileActivations(t *testing.T) {
	t.Parallel()
	const method = "net/http.(*conn).serve"
	profile := session + "web.pb.gz"
	tb := open(t, page(t, profile))
	for _, c := range []struct {
		params string
		args   []string
	}{{"", nil}, {"&invert=1", []string{"--invert"}}, {"&path=" + method, []string{method}}} {
		tb.goTo("/p/file:1/flame?by=activations" + c.params)
		tb.checkFlame(append([]string{"--by", "activations", "--width", "1048576", "--frames", "100000", profile}, c.args...)...)
	}
	if choices := eval[string](tb, `[...document.querySelectorAll("label")].find((l) => l.textContent.startsWith("width")).textContent`); !strings.Contains(choices, "activations") {
		t.Errorf("the page offers %q", choices)
	}
}

// TestFileQuery compares what calls a path, and what it calls, with the command's.
func TestFileQuery(t *testing.T) {
	t.Parallel()
	recursive := folded(t, "main;f;g;f;h 5", "main;f;h 3", "main;g;f 2", "main;other 90")
	for _, c := range []struct{ profile, path string }{
		{session + "web.pb.gz", "net/http.(*conn).serve > net/http.(*response).finishRequest"},
		{session + "web.pb.gz", "runtime.mallocgc"},
		{recursive, "f"},
		{recursive, "f > h"},
	} {
		tb := open(t, page(t, c.profile))
		tb.goTo("/p/file:1/query?path=" + strings.ReplaceAll(c.path, " ", "+"))
		tb.checkQuery(c.profile, c.path)
	}
}

// checkQuery compares a page of a path with the command's.
func (tb *tab) checkQuery(profile, path string) {
	t := tb.t
	t.Helper()
	type call struct {
		Method string `json:"method"`
		counters
	}
	want := asked[struct {
		Distinct, Total  counters
		Callers, Callees []call
	}](t, "query", "-n", "0", profile, path)
	if text := eval[string](tb, `document.querySelector(".total").textContent`); !strings.Contains(text, fmt.Sprintf(", %s of the whole, %d samples", share(want.Distinct.Percent), want.Distinct.Samples)) {
		t.Errorf("%s: the page has %q, the command %v", path, text, want.Distinct)
	}
	for caption, calls := range map[string][]call{"callers": want.Callers, "callees": want.Callees} {
		sums := make(map[string]int64)
		for _, w := range calls {
			if w.Method == "" {
				w.Method = "(root)"
			}
			sums[w.Method] += w.Samples
		}
		for _, r := range rows(tb, caption) {
			sums[r[3]] -= number(r[2])
		}
		for method, n := range sums {
			if n != 0 {
				t.Errorf("%s: %s %s: the command has %d samples more", path, caption, method, n)
			}
		}
	}
}

// number reads a count as pages print it.
func number(text string) (n int64) {
	fmt.Sscan(strings.ReplaceAll(text, ",", ""), &n)
	return n
}

// TestFileTree reads the tree by keys alone, and compares it with the command's.
func TestFileTree(t *testing.T) {
	t.Parallel()
	tb := open(t, page(t, folded(t, "main;a;b 6", "main;a;c 3", "main;d 1")))
	tb.do(chromedp.Focus(`.tree`), chromedp.KeyEvent(kb.Home), chromedp.KeyEvent(kb.ArrowDown), chromedp.KeyEvent(kb.ArrowDown))
	tb.wait(`document.querySelector(".detail").textContent === "a, 90.0 %, 9 samples, 2 callees"`)
	tb.do(chromedp.KeyEvent(kb.Enter))
	tb.wait(`location.hash.includes("root=") && document.querySelector(".crumbs b")?.textContent === "a"`)
	tb.do(chromedp.KeyEvent(kb.Escape))
	tb.wait(`!location.hash.includes("root=") && document.querySelector(".crumbs b") === null`)
	tb.do(chromedp.KeyEvent("?"))
	tb.wait(`document.querySelector("dialog").open`)
	tb.do(chromedp.KeyEvent(kb.Escape), chromedp.KeyEvent("/"))
	tb.wait(`document.activeElement.type === "search"`)
	eval[string](tb, `document.activeElement.value = ""`) // the protocol sends a character even if its key is handled
	tb.do(chromedp.KeyEvent("b"), chromedp.KeyEvent(kb.Enter))
	tb.wait(`document.querySelector(".found")?.textContent.startsWith("1 method with “b”: 60.0 %")`)
}

// TestFileCompare compares the verdict and the colours with the commands'.
func TestFileCompare(t *testing.T) {
	t.Parallel()
	before := folded(t, "main;a;b 5000", "main;a;c 5000", "main;d 1000")
	after := folded(t, "main;a;b 8000", "main;a;c 2000", "main;d 1000")
	tb := open(t, page(t, after, before))
	overlap := asked[struct{ Pairs []struct{ Verdict string } }](t, "overlap", before, after)
	if text := tb.text(); !strings.Contains(text, "Verdict: "+overlap.Pairs[0].Verdict) {
		t.Errorf("the page lacks the verdict %q: %.300s", overlap.Pairs[0].Verdict, text)
	}
	diff := asked[struct{ Changes []struct{ Points float64 } }](t, "flamediff", "--width", "1000", before, after)
	signs := eval[[]string](tb, `[...document.querySelectorAll(".tree .rows .row .figure:first-child")].map((e) => e.textContent).filter((s) => s !== "")`)
	if len(diff.Changes) == 0 || len(signs) != len(diff.Changes) {
		t.Errorf("the page marks %q, flamediff lists %v", signs, diff.Changes)
	}
}

// TestFileShapes opens profiles of odd shapes: one frame, deep, with hostile names.
func TestFileShapes(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 100_000)
	for name, lines := range map[string][]string{
		"one":     {"main 1"},
		"deep":    {"main" + strings.Repeat(";f", 1000) + " 7"},
		"hostile": {`main;<img src=x onerror=alert(1)>;</script><script>alert(2)</script> 5`, "main;\u202eevil\u202c 4", "main;" + long + " 3", "main;__proto__;constructor 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tb := open(t, page(t, folded(t, lines...)))
			for _, p := range []string{"/p/file:1/top", "/p/file:1/flame?invert=1", "/p/file:1/query?path=main", "/p/file:1/flame?path=main", "/p/file:1/flame?q=a"} {
				tb.goTo(p)
				if n := eval[int](tb, `document.querySelectorAll("img, main script, iframe").length`); n != 0 {
					t.Errorf("%s: a name has become %d elements", p, n)
				}
				if strings.ContainsRune(tb.text(), '\u202e') {
					t.Errorf("%s: a name turns text around", p)
				}
			}
		})
	}
}

// TestFileLarge writes a page of 100,000 frames and their difference, and bounds its size.
func TestFileLarge(t *testing.T) {
	t.Parallel()
	lines := func(seed uint32) (all []string) {
		for i := range 50_000 {
			seed = seed*1664525 + 1013904223
			all = append(all, fmt.Sprintf("main;pkg/p%d.f%d;pkg/q%d.g%d;h%d %d", i%37, i%211, i%53, i%1009, i, 1+seed>>24))
		}
		return all
	}
	address := page(t, folded(t, lines(1)...), folded(t, lines(2)...))
	info, err := os.Stat(strings.TrimPrefix(address, "file://"))
	if err != nil {
		t.Fatal(err)
	}
	if t.Logf("%d bytes", info.Size()); info.Size() > 2<<20 {
		t.Errorf("the page has %d bytes, more than 2 MiB", info.Size())
	}
	tb := open(t, address)
	tb.goTo("/p/file:2/flame")
	tb.wait(`Number(document.querySelector(".flame").dataset.drawn) > 10`)
}
