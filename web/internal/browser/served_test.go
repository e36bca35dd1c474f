package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// startUI starts 'ccmapd ui', and returns the address that lets a browser in.
func startUI(t *testing.T, env []string, args ...string) string {
	t.Helper()
	return startUIOn(t, nil, env, args...)
}

// startUIOn does so with a standard input; nil: none.
func startUIOn(t *testing.T, stdin io.Reader, env []string, args ...string) string {
	t.Helper()
	cmd := exec.Command(ccmapd, append([]string{"ui", "--no-open"}, args...)...)
	cmd.Env, cmd.Stdin = append(os.Environ(), env...), stdin
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGINT)
		cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "  http://"); ok {
			return "http://" + address
		}
	}
	t.Fatal("no address is printed")
	return ""
}

// axe is a script that finds what keeps people from using a page (axe-core of Deque); "": it is not here.
func axe(t *testing.T) string {
	t.Helper()
	path := os.Getenv("CCMAPD_AXE")
	if path == "" {
		if os.Getenv("CCMAPD_REQUIRE_BROWSER") == "1" {
			t.Fatal("CCMAPD_AXE names no file: scripts/ci/web gets it")
		}
		return ""
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// usable checks a page for people: nothing for axe to find in light or dark, and no scrolling sideways on a telephone.
func (tb *tab) usable(what, axe string) {
	tb.t.Helper()
	for _, theme := range []string{"light", "dark"} {
		tb.theme(theme)
		if axe == "" {
			continue
		}
		if eval[string](tb, "typeof axe") == "undefined" {
			tb.do(chromedp.Evaluate[chromedp.Void](axe + "\nvoid 0"))
		}
		rules := "{}"
		if theme == "dark" { // which differs by its colours alone
			rules = `{runOnly: ["color-contrast"]}`
		}
		found, err := chromedp.Run(tb, chromedp.Evaluate[[]string](`axe.run(document, `+rules+`).then((r) =>
			r.violations.flatMap((v) => v.nodes.slice(0, 3).map((n) => v.id + ": " + n.html.slice(0, 200) + " " + n.failureSummary)))`, chromedp.EvalAwaitPromise))
		if err != nil {
			tb.t.Fatal(err)
		}
		for _, f := range found {
			tb.t.Errorf("%s, %s: %s", what, theme, f)
		}
	}
	for _, width := range []int64{360, 1280} {
		tb.do(chromedp.EmulateViewport(width, 800))
		if got := eval[int64](tb, "document.documentElement.scrollWidth"); got > width {
			tb.t.Errorf("%s: %d px wide in a window of %d: %q", what, got, width, eval[[]string](tb,
				fmt.Sprintf(`[...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > %d && !e.closest(".scroll, .tree")).map((e) => e.outerHTML.slice(0, 120)).slice(0, 5)`, width)))
		}
	}
}

func (tb *tab) theme(name string) {
	tb.t.Helper()
	tb.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	}))
	tb.wait(`matchMedia("(prefers-color-scheme: ` + name + `)").matches && document.body.dataset.state === "shown"`)
}

// checkFlame compares the rows of a tree that are open with the frames of the command: each is one of them.
func (tb *tab) checkFlame(args ...string) {
	tb.t.Helper()
	want := asked[struct {
		Methods []struct{ Method string }
		Frames  struct {
			Method         []int
			Value, Samples []int64
		}
	}](tb.t, append([]string{"flame", "--width", "2048"}, args...)...)
	known := make(map[string]bool)
	for i, m := range want.Frames.Method {
		known[fmt.Sprint(share(100*float64(want.Frames.Value[i])/float64(max(want.Frames.Value[0], 1))), " ", want.Frames.Samples[i], " ", want.Methods[m].Method)] = true
	}
	got := eval[[][]string](tb, `[...document.querySelectorAll(".tree")].at(-1).querySelector(".rows").textContent === "" ? [] :
		[...[...document.querySelectorAll(".tree")].at(-1).querySelectorAll(".rows .row")].map((r) => [...r.children].map((c) => c.textContent))`)
	if len(got) == 0 {
		tb.t.Errorf("%q: the tree is empty", args)
	}
	for _, r := range got {
		name := strings.TrimLeft(r[4], "▾▸ \u00a0")
		if strings.HasSuffix(name, " more)") {
			continue
		}
		if key := fmt.Sprint(r[1], " ", number(r[3]), " ", name); !known[key] {
			tb.t.Errorf("%q: the command has no frame %q", args, key)
		}
	}
}

// pagesOf are the pages of a profile.
func pagesOf(ref, method string) map[string]string {
	at, of := "/p/"+url.PathEscape(ref)+"/", "path="+url.QueryEscape(method)
	return map[string]string{
		"flame": at + "flame", "callers": at + "flame?invert=1", "both ways": at + "flame?" + of, "search": at + "flame?q=a", "top": at + "top", "top searched": at + "top?q=a",
		"paths": at + "query?" + of, "receivers": at + "receivers",
	}
}

// TestServedPages: over files every page has the figures of its command, can be used by everybody, in the light and in
// the dark and on a telephone, and says nothing on the console. Back and forward restore what was shown.
func TestServedPages(t *testing.T) {
	t.Parallel()
	a, b := session+"web.pb.gz", session+"later.pb.gz"
	const method = "net/http.(*conn).serve"
	script := axe(t)
	tb := open(t, startUI(t, nil, a, b, session+"eval.xml.zst"))
	tb.usable("list", script)
	tb.hasOutline("profiles")
	pages := pagesOf("file:1", method)
	pages["activations"] = "/p/file:1/flame?by=activations"
	for name, address := range pages {
		tb.goTo(address)
		tb.hasOutline(name)
		switch name {
		case "flame":
			tb.checkFlame(a)
		case "activations":
			tb.checkFlame("--by", "activations", a)
		case "callers":
			tb.checkFlame("--invert", a)
		case "both ways":
			tb.checkFlame(a, method)
		case "top":
			tb.checkTop(a)
		case "paths":
			tb.checkQuery(a, method)
		}
		if !slices.Contains([]string{"activations", "callers", "search", "top searched"}, name) { // which have the elements of others
			tb.usable(name, script)
		}
	}
	tb.goTo("/p/file:3/receivers")
	tb.checkReceivers(session + "eval.xml.zst")
	tb.usable("receivers with callers", script)
	tb.checkSites(session+"eval.xml.zst", "main.(*binary).eval(i32) i32")
	tb.usable("method with receivers", script)
	tb.hasOutline("method with receivers")
	tb.goTo("/compare?a=file:1&b=file:2")
	verdict := asked[struct{ Pairs []struct{ Verdict string } }](t, "overlap", a, b).Pairs[0].Verdict
	if text := tb.text(); !strings.Contains(text, "Verdict: "+verdict) {
		t.Errorf("the comparison lacks %q: %.200s", verdict, text)
	}
	tb.usable("compare", script)
	tb.hasOutline("compare")
	tb.do(chromedp.Evaluate[chromedp.Void]("void history.back()"))
	tb.wait(`location.pathname.endsWith("/receivers") && document.body.dataset.state === "shown" && document.querySelector("h2")?.textContent.startsWith("At ")`)
	tb.do(chromedp.Evaluate[chromedp.Void]("void history.forward()"))
	tb.wait(`location.pathname === "/compare" && document.querySelector("h1")?.textContent.startsWith("Verdict: ")`)
}

// TestPoints: the page of a method has what was counted at its blocks and branches, as the command has it.
func TestPoints(t *testing.T) {
	t.Parallel()
	const profile, method = "../../../export/testdata/points.json", "main.main"
	tb := open(t, startUI(t, nil, profile))
	tb.goTo("/p/file:1/query?path=" + method)
	want := asked[struct {
		Points []struct {
			Kind, Origin string
			Count        int64
			Values       []struct {
				Value string
				Share float64 `json:"share_percent"`
			}
		}
	}](t, "points", profile, method).Points
	got, n := rows(tb, "blocks, branches"), 0
	for _, w := range want {
		if w.Kind == "call" {
			continue
		}
		r := got[n]
		n++
		if r[1] != w.Kind || number(r[2]) != w.Count || r[4] != w.Origin {
			t.Errorf("the page has %q, the command %+v", r, w)
		}
		for _, v := range w.Values {
			if !strings.Contains(r[3], v.Value+" "+share(v.Share)) {
				t.Errorf("the page has %q, the command %+v", r, v)
			}
		}
	}
	if n != len(got) || n < 3 {
		t.Errorf("the page has %d points, the command %d that are no calls", len(got), n)
	}
	tb.usable("method with points", axe(t))
}

// TestUploadedFiles: a file of the user is compared with what there is, and its name and content stay text. What is no profile
// is said, and the page stays.
func TestUploadedFiles(t *testing.T) {
	t.Parallel()
	a, b := session+"web.pb.gz", session+"later.pb.gz"
	tb := open(t, startUI(t, nil, a))
	tb.goTo("/")
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("input[name=a]").click()`))
	tb.click("Compare A with B")
	tb.wait(`location.pathname === "/compare" && document.querySelectorAll("input[type=file]").length === 2`)
	give := func(n int, text []byte) {
		t.Helper()
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const t = new DataTransfer(), e = document.querySelectorAll("input[type=file]")[%d];
			t.items.add(new File([Uint8Array.from(atob(%q), (c) => c.charCodeAt(0))], "<img src=x>.pb.gz")); e.files = t.files; void e.dispatchEvent(new Event("change")) }`, n, base64.StdEncoding.EncodeToString(text))))
	}
	tb.mayBeRefused()
	give(1, []byte("no profile"))
	tb.wait(`document.querySelector("[role=status]").textContent.length > 10`)
	text, err := os.ReadFile(b)
	if err != nil {
		t.Fatal(err)
	}
	give(1, text)
	tb.wait(`document.querySelector("h1")?.textContent.startsWith("Verdict: ")`)
	want := asked[struct{ Pairs []struct{ Verdict string } }](t, "overlap", a, b).Pairs[0].Verdict
	if got := eval[string](tb, `document.querySelector("h1").textContent`); got != "Verdict: "+want || !strings.Contains(eval[string](tb, "location.search"), "b=up%3A") {
		t.Errorf("the page says %q, the command %q", got, want)
	}
	if n := eval[int](tb, `document.querySelectorAll("img").length`); n != 0 {
		t.Errorf("a name has become %d elements", n)
	}
	tb.usable("compare with a file", axe(t))
}

// TestExpressions: between slashes a search is an expression, of the server and of what is marked in the graph.
func TestExpressions(t *testing.T) {
	t.Parallel()
	profile := session + "web.pb.gz"
	tb := open(t, startUI(t, nil, profile))
	tb.goTo("/p/file:1/flame?q=" + url.QueryEscape(`/^runtime\.(mallocgc|newobject)$/`))
	if text := eval[string](tb, `document.querySelector(".found").textContent`); !strings.HasPrefix(text, "2 methods with") {
		t.Errorf("found: %q", text)
	}
	tb.do(chromedp.Evaluate[chromedp.Void](`document.activeElement.blur(), void dispatchEvent(new KeyboardEvent("keydown", {key: "n"}))`))
	tb.wait(`/^runtime\.(mallocgc|newobject),/.test(document.querySelector(".detail").textContent)`)
	tb.mayBeRefused()
	tb.do(chromedp.Evaluate[chromedp.Void](`history.pushState(null, "", "/p/file:1/flame?q=" + encodeURIComponent("/(/")); void dispatchEvent(new PopStateEvent("popstate"))`))
	tb.wait(`document.body.dataset.state === "failed" && document.querySelector("[role=alert]").textContent.includes("missing closing )")`)
}

// checkReceivers compares a page of receivers with the command's.
func (tb *tab) checkReceivers(profile string) {
	t := tb.t
	t.Helper()
	type evidence struct {
		Seen      int64
		Receivers []struct {
			Method, Signature string
			Share             float64 `json:"share_percent"`
		}
	}
	want := asked[struct {
		Sites []struct {
			Percent float64
			Verdict string
			Samples evidence `json:"by_samples"`
			Calls   evidence `json:"by_calls"`
		}
	}](t, "receivers", "-n", "100", profile).Sites
	got := rows(tb, "calls that may reach several methods")
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("the page has %d sites, the command %d", len(got), len(want))
	}
	for i, w := range want {
		if r := got[i]; r[0] != share(w.Percent) || number(r[1]) != w.Samples.Seen || number(r[2]) != w.Calls.Seen || r[5] != w.Verdict {
			t.Errorf("the page has %q, the command %+v", r, w)
		}
	}
	shares := make(map[string][2]string) // by time and by calls
	for k, e := range []evidence{want[0].Samples, want[0].Calls} {
		for _, r := range e.Receivers {
			both := shares[r.Method+r.Signature]
			both[k] = share(r.Share)
			shares[r.Method+r.Signature] = both
		}
	}
	detail := rows(tb, "what it reaches")
	if len(detail) != len(shares) {
		t.Errorf("the page has %d receivers, the command %d", len(detail), len(shares))
	}
	for _, r := range detail {
		if w := shares[r[4]]; r[1] != w[0] || r[3] != w[1] {
			t.Errorf("the page has %q, the command %q", r, w)
		}
	}
}

// checkSites compares the calls of a method that may reach several with the command's. Each leads to what it reaches.
func (tb *tab) checkSites(profile, method string) {
	t := tb.t
	t.Helper()
	tb.goTo("/p/file:3/query?path=" + url.QueryEscape(method))
	want := asked[struct {
		Sites []struct {
			Percent float64
			Verdict string
		}
	}](t, "receivers", "-n", "100", profile, method).Sites
	got := rows(tb, "calls that may reach several methods")
	if len(got) != len(want) || len(got) == 0 {
		t.Fatalf("%s: the page has %d sites, the command %d", method, len(got), len(want))
	}
	for i, w := range want {
		if r := got[i]; r[0] != share(w.Percent) || r[5] != w.Verdict {
			t.Errorf("%s: the page has %q, the command %+v", method, r, w)
		}
	}
	tb.clickIn(got[0][0], got[0][3])
	tb.wait(`location.pathname.endsWith("/receivers") && document.querySelector("h2")?.textContent.startsWith("At ")`)
	if n := len(rows(tb, "calls that may reach several methods")); n != len(want) {
		t.Errorf("the page of receivers has %d sites, of the method there are %d", n, len(want))
	}
}

// TestLabels: the page of methods lists labels, of which each leads to the graph of the samples that have it, and all pages
// of the profile stay at it.
func TestLabels(t *testing.T) {
	t.Parallel()
	profile := filepath.Join(t.TempDir(), "labels.pb.gz")
	m := ccmap.New(ccmap.Options{})
	for i, path := range []string{"/api", "/api", "/api", "/<i>"} {
		var frames []ccmap.Frame
		for _, method := range []ccmap.Method{{Name: fmt.Sprint("f", i)}, ccmap.LabelsMethod([]ccmap.Label{{Key: "route", Value: path}})} {
			frames = append(frames, ccmap.Frame{Method: m.Names().Intern(method), Offset: ccmap.NoOffset})
		}
		for range 500 {
			m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e6, Fresh: ccmap.FreshUnknown})
		}
	}
	if err := export.WriteFile(profile, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	tb := open(t, startUI(t, nil, profile))
	tb.goTo("/p/file:1/top")
	if got := rows(tb, "labels"); len(got) != 2 || got[0][0] != "75.0 %" || !strings.Contains(got[0][2], "route=/api") || !strings.Contains(got[1][2], "route=/<i>") {
		t.Errorf("labels %q", got)
	}
	tb.usable("top with labels", axe(t))
	tb.click("route=/api")
	tb.checkFlame("--label", "route=/api", profile)
	if text := tb.text(); !strings.Contains(text, "Only samples with route=/api") || !strings.Contains(text, "1,500 samples") || !strings.Contains(text, " --label route=/api") {
		t.Errorf("the page does not say what it is of: %.500s", text)
	}
	tb.click("Top")
	if got := rows(tb, "hottest methods"); len(got) != 3 {
		t.Errorf("of three methods with the label the page has %q", got)
	}
	tb.click("take all")
	if got := rows(tb, "hottest methods"); len(got) != 4 {
		t.Errorf("of four methods the page has %q", got)
	}
}

// TestServedShapes: profiles of odd shapes are shown by the routes, too: one frame, none, a thousand levels, names that
// want to be more than text, and one that has forgotten contexts.
func TestServedShapes(t *testing.T) {
	t.Parallel()
	files := []string{
		folded(t, "main 1"),
		folded(t, "main"+strings.Repeat(";f", 1000)+" 7"),
		folded(t, `main;<img src=x onerror=alert(1)>;</script><script>alert(2)</script> 5`, "main;\u202eevil\u202c 4", "main;"+strings.Repeat("x", 100_000)+" 3", "main;__proto__;constructor 2"),
		pruned(t),
	}
	tb := open(t, startUI(t, nil, files...))
	const hostile = 2
	for i := range files {
		for name, address := range pagesOf(fmt.Sprintf("file:%d", i+1), "main") {
			if i != hostile && !slices.Contains([]string{"flame", "both ways", "receivers"}, name) {
				continue
			}
			tb.goTo(address)
			if n := eval[int](tb, `document.querySelectorAll("img, main script, iframe").length`); n != 0 {
				t.Errorf("file:%d, %s: a name has become %d elements", i+1, name, n)
			}
			if strings.ContainsRune(tb.text(), '\u202e') {
				t.Errorf("file:%d, %s: a name turns text around", i+1, name)
			}
			if width := eval[int](tb, "document.documentElement.scrollWidth"); width > 1280 {
				t.Errorf("file:%d, %s: %d px wide", i+1, name, width)
			}
		}
	}
	tb.goTo("/p/file:2/flame")
	tb.do(chromedp.Focus(".tree"), chromedp.Evaluate[chromedp.Void](`for (let i = 0; i < 1001; i++) document.querySelector(".tree").dispatchEvent(new KeyboardEvent("keydown", {key: "ArrowRight"}))`))
	tb.wait(`document.querySelector(".detail").textContent.startsWith("f, 100.0 %, 7 samples")`)
	tb.goTo("/p/file:4/flame")
	if !strings.Contains(tb.text(), "pruned") {
		t.Errorf("the page does not say that contexts were pruned: %.500s", tb.text())
	}
	tb.goTo("/compare?a=file:1&b=file:3")
}

// TestMillion: of a profile of a million nodes a leaf that is a millionth of the whole is three clicks away, and a search
// finds as many methods as the command.
func TestMillion(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	lines := make([]string, 1_000_000)
	for i := range lines {
		lines[i] = fmt.Sprintf("main;a%d;b%d;c%d 1", i%100, i%10_000, i/10_000)
	}
	profile := folded(t, lines...)
	tb := open(t, startUI(t, nil, profile))
	tb.wait(`Number(document.querySelector(".flame").dataset.drawn) > 100`)
	tb.checkFlame(profile)
	for level, name := range []string{"a", "b", "c"} {
		y := 30 // the row below the root
		if level == 0 {
			y += 20 // main is between
		}
		before := eval[string](tb, "location.search")
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`{ const c = document.querySelector(".flame canvas"), r = c.getBoundingClientRect();
			void c.dispatchEvent(new MouseEvent("click", { clientX: r.left + 3, clientY: r.top + %d, bubbles: true })) }`, y)))
		tb.wait(fmt.Sprintf(`location.search !== %s && document.body.dataset.state === "shown" && document.querySelector(".crumbs b")?.textContent.startsWith(%q)`, quote(before), name))
	}
	leaf := eval[string](tb, `document.querySelector(".crumbs b").textContent`)
	if detail := eval[string](tb, `document.querySelector(".detail").textContent`); !strings.HasPrefix(detail, leaf+", ") || !strings.Contains(detail, "1 sample") {
		t.Errorf("the leaf %s is described as %q", leaf, detail)
	}
	tb.goTo("/p/file:1/flame?q=" + leaf)
	want := asked[struct {
		Methods []struct{ Method string }
	}](t, "top", "--match", leaf, "-n", "0", profile)
	if text := eval[string](tb, `document.querySelector(".found").textContent`); !strings.HasPrefix(text, fmt.Sprintf("%d method", len(want.Methods))) {
		t.Errorf("the page finds %q, the command %d", text, len(want.Methods))
	}
}

// pruned writes a profile that has forgotten rare contexts.
func pruned(t *testing.T) string {
	t.Helper()
	var lines []string
	for i := range 5000 {
		lines = append(lines, fmt.Sprintf("main;a%d;b%d;c%d %d", i%7, i%101, i, 1+int(math.Sqrt(float64(i)))))
	}
	path := filepath.Join(t.TempDir(), "pruned.json")
	command(t, "merge", "--max-memory", "64KiB", "-o", path, folded(t, lines...))
	return path
}

// TestPhotograph takes the picture of README and docs/browser.md. With CCMAPD_PHOTOGRAPH=1 it replaces the one that is
// there; else that must be of the same page, by its size.
func TestPhotograph(t *testing.T) {
	t.Parallel()
	const path, mostBytes = "../../../docs/browser.png", 150_000
	tb := open(t, startUI(t, nil, session+"web.pb.gz", session+"later.pb.gz"))
	tb.do(chromedp.EmulateViewport(1200, 720))
	tb.theme("light")
	tb.goTo("/p/file:1/flame")
	tb.wait(`Number(document.querySelector(".flame").dataset.drawn) > 10`)
	picture, err := chromedp.Run(tb, chromedp.CaptureScreenshot())
	if err != nil {
		t.Fatal(err)
	}
	if len(picture) > mostBytes {
		t.Errorf("the picture has %d bytes, more than %d", len(picture), mostBytes)
	}
	if os.Getenv("CCMAPD_PHOTOGRAPH") == "1" {
		if err := os.WriteFile(path, picture, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	there, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var sizes [2]image.Config
	for i, text := range [][]byte{picture, there} {
		if sizes[i], err = png.DecodeConfig(bytes.NewReader(text)); err != nil {
			t.Fatal(err)
		}
	}
	if sizes[0].Width != sizes[1].Width || sizes[0].Height != sizes[1].Height {
		t.Errorf("%s is %d × %d px, the page %d × %d", path, sizes[1].Width, sizes[1].Height, sizes[0].Width, sizes[0].Height)
	}
}
