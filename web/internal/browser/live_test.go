package browser

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	cdppage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/pages"
	"github.com/ccmapd/ccmapd/web"
)

// growing is a session that a test samples. Any goroutine may call its methods.
type growing struct {
	mu       sync.Mutex
	m        *ccmap.Map
	perLook  int // samples that each look finds new
	most     int // samples that there will ever be; 0: no limit
	requests int // for its profile
}

// add folds samples of a stack, the innermost method first.
func (g *growing) add(n int, stack ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.fold(n, stack...)
}

func (g *growing) fold(n int, stack ...string) {
	frames := make([]ccmap.Frame, len(stack))
	for i, name := range stack {
		frames[i].Method = g.m.Names().Intern(ccmap.Method{Name: name})
	}
	for range n {
		g.m.Fold(&ccmap.Sample{Frames: frames, Thread: 1, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
}

func (g *growing) Snapshot() *ccmap.Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m.Snapshot()
}

func (g *growing) Fresh(context.Context) (*ccmap.Snapshot, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.most == 0 || int(g.m.Snapshot().Total().Samples) < g.most {
		g.fold(g.perLook, "leaf<i>", "serve", "main")
	}
	return g.m.Snapshot(), nil
}

func (g *growing) asked() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.requests
}

// serve serves pages of the session, at an address that lets a browser in. Each request gets a profile of its own: so
// much changes in a minute as otherwise in an hour. Other answers are those of more, by path.
func (g *growing) serve(t *testing.T, path string, more map[string]string) string {
	t.Helper()
	return servePages(t, path, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, ok := more[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
			return
		}
		g.mu.Lock()
		g.requests++
		g.mu.Unlock()
		api.Local(api.LocalOptions{Sessions: map[string]api.Session{"web": g}}).ServeHTTP(w, r)
	}))
}

// servePages serves pages with figures of a handler, at an address that lets a browser in.
func servePages(t *testing.T, path string, data http.Handler) string {
	t.Helper()
	shell, err := pages.NewShell(web.Files(), web.Policy)
	if err != nil {
		t.Fatal(err)
	}
	l, err := pages.Listen(0)
	if err != nil {
		t.Fatal(err)
	}
	s := pages.NewServer(l, shell, pages.NewGate(nil), data)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return s.URL(path)
}

// hurried lets a hundred times as much time pass for a page.
func hurried(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
	_, err := cdp.Call(ctx, t, cdppage.AddScriptToEvaluateOnNewDocument, cdppage.AddScriptToEvaluateOnNewDocumentParams{
		Source: `{ const real = window.setTimeout; window.setTimeout = (f, ms) => real.call(window, f, ms / 100); }`,
	})
	return chromedp.Void{}, err
}

// hide tells a page that nobody sees it, or somebody does.
func (tb *tab) hide(hidden bool) {
	tb.t.Helper()
	tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`Object.defineProperty(document, "hidden", {configurable: true, value: %t}); void document.dispatchEvent(new Event("visibilitychange"))`, hidden)))
}

// TestLive: a page begins with an empty profile, follows the session, and keeps what its reader has opened, chosen and
// focused. It asks for nothing while it is hidden or stopped, and draws nothing where nothing is new.
func TestLive(t *testing.T) {
	t.Parallel()
	g := &growing{m: ccmap.New(ccmap.Options{})}
	tb := open(t, g.serve(t, "/p/live:web/flame", nil), hurried)
	g.add(100, "leaf", "serve", "main")
	g.add(5, "rare", "serve", "main")
	tb.wait(`document.querySelector(".strip").textContent.includes("105 samples") && document.querySelector(".tree").textContent.includes("rare")`)

	tb.do(chromedp.Focus(".tree"), chromedp.Evaluate[chromedp.Void](`{
		const press = (key) => document.querySelector(".tree").dispatchEvent(new KeyboardEvent("keydown", {key}));
		press("Home"); for (let i = 0; i < 4; i++) press("ArrowDown"); void 0 }`))
	tb.wait(`document.querySelector(".tree .selected")?.textContent.includes("rare")`)
	g.add(200, "rare", "serve", "main") // the rows of rare and leaf stay, and their order is another
	g.add(10, "new", "main")
	tb.wait(`document.querySelector(".strip").textContent.includes("315 samples") && document.querySelector(".tree").textContent.includes("new")`)
	if got := eval[string](tb, `document.querySelector(".tree .selected").textContent + document.querySelector(".detail").textContent`); !strings.Contains(got, "rarerare, 65.1 %") {
		t.Errorf("the chosen row is now %q", got)
	}
	if !eval[bool](tb, `document.activeElement.classList.contains("tree")`) {
		t.Error("the focus has left the tree")
	}

	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector(".tree").marked = true; void 0`))
	// rested reports whether the page has asked for nothing in a time in which it would otherwise ask several times.
	rested := func() bool {
		t.Helper()
		const rest = `new Promise((done) => { let n = 10; const step = () => n-- > 0 ? setTimeout(step, 2000) : done(true); step(); })`
		before := g.asked()
		if _, err := chromedp.Run(tb, chromedp.Evaluate[bool](rest, chromedp.EvalAwaitPromise)); err != nil {
			t.Fatal(err)
		}
		return g.asked() == before
	}
	before := g.asked()
	tb.waitFor(func() bool { return g.asked() > before+3 })
	if !eval[bool](tb, `document.querySelector(".tree").marked === true`) {
		t.Error("the page is drawn anew, and nothing is new")
	}
	for name, stop := range map[string]func(bool){
		"hidden": tb.hide,
		"stopped": func(bool) {
			tb.do(chromedp.Evaluate[chromedp.Void](`void [...document.querySelectorAll("header button")].find((b) => b.textContent === "live" || b.textContent === "stopped").click()`))
		},
	} {
		t.Log("the page is", name)
		stop(true)
		tb.waitFor(rested) // a request may be on its way
		before := g.asked()
		stop(false)
		tb.waitFor(func() bool { return g.asked() > before })
	}
}

// waitFor waits until something has come about here.
func (tb *tab) waitFor(done func() bool) {
	tb.t.Helper()
	for tick := time.NewTicker(10 * time.Millisecond); !done(); <-tick.C {
		if tb.Err() != nil {
			tb.t.Fatal("it does not come about")
		}
	}
}

// TestLiveKeepsItsSize: a page that has drawn hundreds of profiles has no more in memory than when it had drawn some.
func TestLiveKeepsItsSize(t *testing.T) {
	t.Parallel()
	g := &growing{m: ccmap.New(ccmap.Options{}), perLook: 1}
	for i := range 200 {
		g.add(1+i, fmt.Sprintf("leaf%d", i), fmt.Sprintf("f%d", i%10), "main")
	}
	tb := open(t, g.serve(t, "/p/live:web/flame", nil), hurried)
	size := func() (heap, nodes float64) {
		t.Helper()
		tb.hide(true)
		defer tb.hide(false)
		m, err := chromedp.Run(tb, func(ctx context.Context, t *chromedp.Target) (all performance.GetMetricsResult, err error) {
			if _, err = cdp.Call(ctx, t, performance.Enable, performance.EnableParams{}); err == nil {
				for range 3 { // nodes go after the objects that hold them
					if _, err = cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
						return all, err
					}
				}
				all, err = cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
			}
			return all, err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range m.Metrics {
			switch one.Name {
			case "JSHeapUsedSize":
				heap = one.Value
			case "Nodes":
				nodes = one.Value
			}
		}
		return heap, nodes
	}
	after := func(n int) {
		t.Helper()
		until := g.asked() + 2*n // a profile and what is known of it
		tb.waitFor(func() bool { return g.asked() >= until })
	}
	after(30)
	heap, nodes := size()
	after(200)
	tb.waitFor(func() bool { // a busy browser collects late
		heapNow, nodesNow := size()
		t.Logf("heap %.0f → %.0f bytes, nodes %.0f → %.0f", heap, heapNow, nodes, nodesNow)
		return heapNow <= 1.1*heap+256<<10 && nodesNow <= 1.1*nodes+100
	})
}

// TestTuningAndDoctor: both pages are tables first, and have what the daemon says, as text.
func TestTuningAndDoctor(t *testing.T) {
	t.Parallel()
	g := &growing{m: ccmap.New(ccmap.Options{})}
	g.add(1, "main")
	begin := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC).Unix()
	tuning := fmt.Sprintf(`{"t": [%d, %d, %d], "band_percent": [1, 15], "series": {"interval_ns": [1e7, null, 2e7], "repeated_percent": [4.2, null, 20], "threads": [3, 0, 4]},
		"marks": [{"t": %d, "kind": "interval", "text": "interval 20ms, was 10ms <img src=x onerror=alert(1)>"}]}`, begin, begin+60, begin+120, begin+90)
	doctor := `{"checks": [{"name": "perf", "ok": false, "found": "perf_event_paranoid is 4", "wanted": "2 or less", "cure": "sysctl kernel.perf_event_paranoid=2"}],
		"engines": [{"name": "bpf", "permitted": false, "features": [], "samples": 0, "reason": "needs CAP_BPF", "cure": "setcap cap_bpf+ep ccmapd"}, {"name": "perf", "permitted": true, "features": ["kernel"], "samples": 19}],
		"auto": "perf"}`
	script := axe(t)
	tb := open(t, g.serve(t, "/p/live:web/tuning", map[string]string{"/v1/p/live:web/tuning": tuning, "/v1/doctor": doctor}))
	got := rows(tb, "by time, the latest first")
	if len(got) != 3 || got[0][1] != "20.0 ms" || got[0][2] != "20.0 %" || got[1][1] != "" || got[2][2] != "4.2 %" {
		t.Errorf("rows %q", got)
	}
	if marks := rows(tb, "events"); len(marks) != 1 || !strings.Contains(marks[0][2], "interval 20ms, was 10ms <img") {
		t.Errorf("events %q", marks)
	}
	if n := eval[int](tb, `document.querySelectorAll("img").length`); n != 0 {
		t.Errorf("a text has become %d elements", n)
	}
	if n := eval[int](tb, `document.querySelectorAll(".plots svg").length`); n != 3 {
		t.Errorf("%d plots", n)
	}
	tb.usable("tuning", script)
	tb.hasOutline("tuning")
	tb.goTo("/doctor")
	if got := rows(tb, "engines, the best first"); len(got) != 2 || got[0][0] != "bpf" || !strings.Contains(got[0][5], "setcap cap_bpf+ep ccmapd") || !strings.Contains(got[1][1], "yes") {
		t.Errorf("engines %q", got)
	}
	if got := rows(tb, "what the kernel answers"); len(got) != 1 || !strings.Contains(got[0][4], "sysctl") {
		t.Errorf("checks %q", got)
	}
	tb.usable("doctor", script)
	tb.hasOutline("doctor")
}

// TestPlotKeepsExtremes: a line of more points than a picture has pixels has few of them, and each peak, dip and gap.
func TestPlotKeepsExtremes(t *testing.T) {
	t.Parallel()
	const points = 5000
	var at, values []string
	for i := range points {
		v := "50"
		switch i {
		case 1777:
			v = "100"
		case 2501:
			v = "0"
		case 4000:
			v = "null"
		}
		at, values = append(at, strconv.Itoa(1_800_000_000+60*i)), append(values, v)
	}
	g := &growing{m: ccmap.New(ccmap.Options{})}
	g.add(1, "main")
	tb := open(t, g.serve(t, "/p/live:web/tuning", map[string]string{
		"/v1/p/live:web/tuning": fmt.Sprintf(`{"t": [%s], "series": {"threads": [%s]}, "marks": []}`, strings.Join(at, ","), strings.Join(values, ",")),
	}))
	lines := eval[[]string](tb, `[...document.querySelectorAll(".plots polyline")].map((l) => l.getAttribute("points"))`)
	if len(lines) != 2 || strings.Count(lines[0]+lines[1], ",") > 2100 {
		t.Errorf("%d lines with %d points", len(lines), strings.Count(strings.Join(lines, ""), ","))
	}
	for _, y := range []string{",2.0 ", ",58.0 "} { // the top of the picture, and its bottom
		if strings.Count(lines[0], y) != 1 {
			t.Errorf("the line is at%s%d times", y, strings.Count(lines[0], y))
		}
	}
}
