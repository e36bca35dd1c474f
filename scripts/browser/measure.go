package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/heapprofiler"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/performance"
	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// rows are those of the table: a figure, and what is to be reached.
var rows = [][2]string{
	{"server reads the file, until it answers", ""},
	{"first contentful paint, cold; warm, median of nine loads", "≤ 300 ms warm"},
	{"flame graph drawn, from a cold cache; from a warm one, median of nine loads", "≤ 300 ms warm"},
	{"over the wire, for the graph", "≤ 300 kB"},
	{"click on a frame until its picture is there, median", "p95 ≤ 50 ms"},
	{"… until what was too narrow is in it", ""},
	{"pointer over the graph until the next frame, median", "p95 ≤ 33 ms"},
	{"JavaScript heap of the tab, after a collection", "≤ 60 MB"},
	{"elements of the page", ""},
	{"search of a text in all nodes: first; again", "≤ 300 ms"},
	{"search of an expression: again", "≤ 300 ms"},
	{"10,000 frames: answer, size", ""},
	{"difference of two profiles of a tenth of the nodes: graph; changes", "≤ 500 ms"},
}

// figures are the cells of a column.
type figures []string

const patience = 5 * time.Minute

// watching notes when a page is drawn, by its own clock.
const watching = `globalThis.drawnAt = 0; (function look() {
	if (!globalThis.drawnAt && document.body && (%s)) requestAnimationFrame(() => { globalThis.drawnAt = performance.now(); });
	else requestAnimationFrame(look); })()`

func (b *browsing) measure(ctx context.Context, s site) (f figures, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	began := time.Now()
	is, err := s.start(ctx)
	defer is.end()
	if err != nil {
		return nil, err
	}
	f = append(f, ms(float64(time.Since(began).Milliseconds())))
	tab, end, err := newTab(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	t := &visit{tab, s, is.session}
	if err := t.prepare(); err != nil {
		return nil, err
	}
	cold, err := t.load(chromedp.Navigate(is.address))
	if err != nil {
		return nil, err
	}
	paints, draws, err := t.reloads(b.loads)
	if err != nil {
		return nil, err
	}
	f = append(f, ms(cold.Paint)+"; "+spread(paints), ms(cold.Drawn)+"; "+spread(draws), mib(cold.Bytes))
	zooms, err := t.zooms(b.rounds)
	if err != nil {
		return nil, err
	}
	hovers, err := t.hovers(b.rounds)
	if err != nil {
		return nil, err
	}
	heap, nodes, err := t.memory()
	if err != nil {
		return nil, err
	}
	f = append(f, spread(zooms[0]), spread(zooms[1]), spread(hovers), mib(heap), report.Count(nodes))
	if f, err = t.reads(f); err != nil {
		return nil, err
	}
	return b.compare(ctx, s, f)
}

// compare adds how long the difference of two smaller profiles takes, as a page asks for it.
func (b *browsing) compare(ctx context.Context, s site, f figures) (figures, error) {
	if len(s.reads) == 0 {
		return append(f, "–"), nil
	}
	is, err := ready(ctx, b.Ccmapd, b.smaller...)
	defer is.end()
	if err != nil {
		return nil, err
	}
	tab, end, err := newTab(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	s.drawn, s.reads = `document.body.dataset.state === "failed" || document.body.dataset.state === "shown"`, nil
	t := &visit{tab, s, is.session}
	if err := t.prepare(); err != nil {
		return nil, err
	}
	if _, err := t.load(chromedp.Navigate(is.address)); err != nil {
		return nil, err
	}
	const sides = "a=file:1&b=file:2"
	graph, err := t.ask("/v1/flamediff?width=1300&"+sides, "&frames=8000")
	if err != nil {
		return nil, err
	}
	changes, err := t.ask("/v1/diff?limit=20&"+sides, "&all=1")
	return append(f, ms(graph.Again)+"; "+ms(changes.First)), err
}

// ownPages are pages of Chromium's own, with a hundred scripts, that it loads in its first seconds beside what is measured.
// The others are off by default for tests.
const ownPages = "PreloadTopChromeWebUI,WebUIOmniboxPopup,WebUIOmniboxFullPopup,WebUIOmniboxAimPopup,Translate,BlinkGenPropertyTrees"

// newTab starts Chromium.
func newTab(ctx context.Context) (context.Context, func(), error) {
	path, err := exec.LookPath("chromium")
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 900),
		chromedp.Flag("disable-dev-shm-usage", false), chromedp.Flag("disable-features", ownPages))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(ctx, options...)
	tab, cancelTab := chromedp.NewContext(allocator)
	return tab, func() { cancelTab(); cancel() }, chromedp.Do(tab, chromedp.Navigate("about:blank"))
}

// visit is a tab that shows a site.
type visit struct {
	context.Context
	site
	session string // of the tab; "": it has none, or enters by itself
}

// entered lets a tab in.
const entered = `try { sessionStorage.setItem("ccmapd", %q) } catch {} // a page without an origin has no storage
`

// prepare has each page note when it is drawn, and the browser what it uses.
func (v *visit) prepare() error {
	script := fmt.Sprintf(watching, v.drawn)
	if v.session != "" {
		script = fmt.Sprintf(entered, v.session) + script
	}
	return chromedp.Do(v.Context, func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		if _, err = cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: script}); err != nil {
			return none, err
		}
		_, err = cdp.Call(ctx, t, performance.Enable, performance.EnableParams{})
		return none, err
	})
}

// loaded says how a page was loaded: ms, bytes.
type loaded struct{ Paint, Drawn, Bytes float64 }

func (v *visit) load(how chromedp.Action[chromedp.Void]) (l loaded, err error) {
	if err := chromedp.Do(v.Context, how); err != nil {
		return l, err
	}
	return chromedp.Run(v.Context, chromedp.Evaluate[loaded](`new Promise((done) => (function look() {
		if (!globalThis.drawnAt) return void setTimeout(look, 50);
		const all = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")];
		done({ Paint: performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? -1, Drawn: globalThis.drawnAt,
			Bytes: all.reduce((n, e) => n + e.transferSize, 0) });
	})())`, chromedp.EvalAwaitPromise))
}

// reloads loads the page again, from a warm cache, and returns when each load had its first paint and its graph, ms.
func (v *visit) reloads(rounds int) (paints, draws []float64, err error) {
	for range rounds {
		l, err := v.load(chromedp.Reload())
		if err != nil {
			return nil, nil, err
		}
		paints, draws = append(paints, l.Paint), append(draws, l.Drawn)
	}
	return paints, draws, nil
}

// zooms clicks on a frame and back, and returns how long each took until there was a picture, and until it was whole, ms.
func (v *visit) zooms(rounds int) ([][]float64, error) {
	return chromedp.Run(v.Context, chromedp.Evaluate[[][]float64](fmt.Sprintf(`(async () => {
		const took = [[], []];
		const until = (isDone) => new Promise((done) => (function look() { requestAnimationFrame(() => isDone() ? requestAnimationFrame(done) : look()); })());
		for (let i = 0; i < %d; i++) {
			const began = performance.now();
			%s;
			await until(() => (%s));
			took[0].push(performance.now() - began);
			await until(() => (%s));
			took[1].push(performance.now() - began);
		}
		return took;
	})()`, rounds, v.zoom, v.picture, v.drawn), chromedp.EvalAwaitPromise))
}

// hovers moves the pointer over the graph, and returns how long each move took to the next frame, ms.
func (v *visit) hovers(rounds int) ([]float64, error) {
	return chromedp.Run(v.Context, chromedp.Evaluate[[]float64](fmt.Sprintf(`(async () => {
		const took = [];
		for (let i = 0; i < %d; i++) {
			const began = performance.now();
			%s;
			await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			took.push(performance.now() - began);
		}
		return took;
	})()`, rounds, v.hover), chromedp.EvalAwaitPromise))
}

// memory returns the JavaScript heap in use, bytes, and the elements of the page.
func (v *visit) memory() (heap, nodes float64, err error) {
	err = chromedp.Do(v.Context, func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		if _, err = cdp.Call(ctx, t, heapprofiler.CollectGarbage, cdp.Empty{}); err != nil {
			return none, err
		}
		all, err := cdp.Call(ctx, t, performance.GetMetrics, cdp.Empty{})
		for _, m := range all.Metrics {
			switch m.Name {
			case "JSHeapUsedSize":
				heap = m.Value
			case "Nodes":
				nodes = m.Value
			}
		}
		return none, err
	})
	return heap, nodes, err
}

// asked is an answer to a page's question.
type asked struct{ First, Again, Bytes float64 }

// ask asks a question, and another one of the same kind, which no kept answer serves.
func (v *visit) ask(route, more string) (asked, error) {
	return chromedp.Run(v.Context, chromedp.Evaluate[asked](fmt.Sprintf(`(async () => {
		const ask = async (route) => {
			const began = performance.now(), answer = await fetch(route, { headers: { Authorization: "Bearer " + sessionStorage.getItem("ccmapd") } });
			const text = await answer.text();
			if (!answer.ok) throw new Error(text);
			return [performance.now() - began, text.length];
		};
		const [first, bytes] = await ask(%q), [again] = await ask(%q);
		return { First: first, Again: again, Bytes: bytes };
	})()`, route, route+more), chromedp.EvalAwaitPromise))
}

// reads asks the questions of a site, twice.
func (v *visit) reads(f figures) (figures, error) {
	if len(v.site.reads) == 0 {
		return append(f, "–", "–", "–"), nil
	}
	all := make([]asked, len(v.site.reads))
	for i, r := range v.site.reads {
		var err error
		if all[i], err = v.ask(r.route, r.again); err != nil {
			return nil, fmt.Errorf("%s: %w", r.name, err)
		}
	}
	return append(f, ms(all[0].First)+"; "+ms(all[0].Again), ms(all[1].Again), ms(all[2].First)+", "+mib(all[2].Bytes)+" of JSON"), nil
}
