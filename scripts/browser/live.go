package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/pages"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
	"github.com/ccmapd/ccmapd/web"
)

// growing is a session that has new samples whenever it is looked at.
type growing struct {
	mu    sync.Mutex
	m     *ccmap.Map
	looks *atomic.Int64
}

func (g *growing) Snapshot() *ccmap.Snapshot {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.m.Snapshot()
}

func (g *growing) Fresh(context.Context) (*ccmap.Snapshot, error) {
	g.looks.Add(1)
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range uint32(100) {
		g.m.Add(ccmap.NodeID(1+i*7)%ccmap.NodeID(g.m.Snapshot().Len()), ccmap.Counters{Samples: 1, Time: 1e7})
	}
	return g.m.Snapshot(), nil
}

// hurry lets a hundred times as much time pass for a page.
const hurry = `{ const real = window.setTimeout; window.setTimeout = (f, ms, ...more) => real.call(window, f, ms / 100, ...more); }`

// day returns the JavaScript heap of a page that follows a session, after it has drawn few profiles, and many.
func (b *browsing) day(ctx context.Context) (string, error) {
	few, many := int64(100), int64(500)
	if b.Quick {
		few, many = 10, 40
	}
	shell, err := pages.NewShell(web.Files(), web.Policy)
	if err != nil {
		return "", err
	}
	g := &growing{m: thicket(20_000, 9), looks: new(atomic.Int64)}
	mux := http.NewServeMux()
	mux.Handle("/", shell)
	mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) { // each look is at a profile of its own
		api.Local(api.LocalOptions{Sessions: map[string]api.Session{"web": g}}).ServeHTTP(w, r)
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	tab, end, err := newTab(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	v := &visit{Context: tab, site: site{drawn: "true"}}
	if err := v.prepare(); err != nil {
		return "", err
	}
	if err := chromedp.Do(tab, func(ctx context.Context, t *chromedp.Target) (none chromedp.Void, err error) {
		_, err = cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: hurry})
		return none, err
	}, chromedp.Navigate(server.URL+"/p/live:web/flame")); err != nil {
		return "", err
	}
	var heaps []string
	for _, n := range []int64{few, many} {
		if err := until(ctx, func() bool { return g.looks.Load() >= 2*n }); err != nil { // what is known of it, and its graph
			return "", err
		}
		heap, _, err := v.memory()
		if err != nil {
			return "", err
		}
		heaps = append(heaps, mib(heap))
	}
	return strings.Join(heaps, "; "), nil
}

// until waits until something has come about.
func until(ctx context.Context, done func() bool) error {
	for tick := time.NewTicker(20 * time.Millisecond); !done(); {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// plots returns how long the page of tuning takes from its address until it is drawn, with the answer of a server in
// memory: with eight lines of a day by the minute, and with one of 5,000 points.
func (b *browsing) plots(ctx context.Context) (string, error) {
	shell, err := pages.NewShell(web.Files(), web.Policy)
	if err != nil {
		return "", err
	}
	mux := http.NewServeMux()
	mux.Handle("/", shell)
	for name, size := range map[string][2]int{"eight": {8, 1440}, "one": {1, 5000}} {
		text, err := json.Marshal(history(size[0], size[1]))
		if err != nil {
			return "", err
		}
		mux.HandleFunc("/v1/p/live:"+name+"/tuning", func(w http.ResponseWriter, _ *http.Request) { w.Write(text) })
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	tab, end, err := newTab(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	var medians []string
	for _, name := range []string{"eight", "one"} {
		if err := chromedp.Do(tab, chromedp.Navigate(server.URL+"/p/live:"+name+"/tuning")); err != nil {
			return "", err
		}
		took, err := chromedp.Run(tab, chromedp.Evaluate[[]float64](fmt.Sprintf(`(async () => {
			const took = [], frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
			while (document.body.dataset.state !== "shown") await frame();
			for (let i = 0; i < %d; i++) {
				const began = performance.now(), old = document.querySelector(".plots");
				dispatchEvent(new PopStateEvent("popstate"));
				while (document.querySelector(".plots") === old || document.body.dataset.state !== "shown") await frame();
				took.push(performance.now() - began);
			}
			return took;
		})()`, b.rounds), chromedp.EvalAwaitPromise))
		if err != nil {
			return "", err
		}
		medians = append(medians, spread(took))
	}
	return strings.Join(medians, "; "), nil
}

// history is an answer about how a target was sampled: lines of so many minutes.
func history(lines, minutes int) map[string]any {
	t, series := make([]int, minutes), make(map[string][]float64)
	for i := range t {
		t[i] = 1_700_000_000 + 60*i
	}
	for n := range lines {
		values := make([]float64, minutes)
		for i := range values {
			values[i] = float64((i*(n+7))%101) / 3
		}
		series[fmt.Sprintf("line_%d", n)] = values
	}
	return map[string]any{"t": t, "series": series}
}

// manyPages returns the part of a core that a daemon takes without pages, and with many, each of a target of its own.
func (b *browsing) manyPages(ctx context.Context) (string, error) {
	count, nodes, window := 20, 100_000, time.Minute
	if b.Quick {
		count, nodes, window = 3, 5000, 5*time.Second
	}
	sessions := make(map[string]api.Session)
	for i := range count {
		sessions[fmt.Sprintf("vm%d", i)] = &growing{m: thicket(nodes, uint64(10+i)), looks: new(atomic.Int64)}
	}
	mux := http.NewServeMux()
	var config strings.Builder
	dir, err := os.MkdirTemp("", "pages")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	free := httptest.NewServer(nil) // its port is free once it is closed
	port := strings.TrimPrefix(free.URL, "http://")
	free.Close()
	fmt.Fprintf(&config, "[listen]\nsocket = %q\ntcp = %q\n", filepath.Join(dir, "socket"), port)
	vms := httptest.NewServer(mux)
	defer vms.Close()
	for name, s := range sessions {
		mux.Handle("/"+name+"/", http.StripPrefix("/"+name, api.Handler(map[string]api.Session{name: s})))
		fmt.Fprintf(&config, "\n[[target]]\nname = %q\nmatch = { url = \"%s/%s\" }\n", name, vms.URL, name)
	}
	file := filepath.Join(dir, "ccmapd.toml")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return "", err
	}
	daemon := exec.CommandContext(ctx, b.Ccmapd, "serve", "--config", file)
	if err := daemon.Start(); err != nil {
		return "", err
	}
	defer func() {
		daemon.Process.Signal(syscall.SIGTERM)
		daemon.Wait() // it is ended by a signal
	}()
	answers := func(path string) bool {
		r, err := http.Get("http://" + port + path)
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	}
	for name := range sessions {
		if err := until(ctx, func() bool { return answers("/v1/p/live:" + name + "/meta") }); err != nil {
			return "", fmt.Errorf("%s is not sampled: %w", name, err)
		}
	}
	tab, end, err := newTab(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	var tabs []context.Context
	for range count {
		one, cancel := chromedp.NewContext(tab)
		defer cancel()
		tabs = append(tabs, one)
	}
	// shareWith returns the daemon's share while each tab shows a page.
	shareWith := func(address func(i int) string) (float64, error) {
		for i, one := range tabs {
			if err := chromedp.Do(one, chromedp.Navigate(address(i))); err != nil {
				return 0, err
			}
		}
		if _, err := share(ctx, daemon.Process.Pid, window/4); err != nil { // the first answers
			return 0, err
		}
		return share(ctx, daemon.Process.Pid, window)
	}
	blank := func(int) string { return "about:blank" }
	before, err1 := shareWith(blank) // a daemon takes more in its second minute than in its first
	with, err2 := shareWith(func(i int) string { return fmt.Sprintf("http://%s/p/live:vm%d/flame", port, i) })
	after, err3 := shareWith(blank)
	return fmt.Sprintf("%s %% and, later, %s %%; %s %%", report.Number(100*before, 1), report.Number(100*after, 1), report.Number(100*with, 1)), errors.Join(err1, err2, err3)
}

// share returns the part of a core that a process takes in a time.
func share(ctx context.Context, pid int, window time.Duration) (float64, error) {
	before, err := campaign.CPUOf(pid)
	if err != nil {
		return 0, err
	}
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := campaign.CPUOf(pid)
	return (after - before).Seconds() / window.Seconds(), err
}

// large returns after how long 'ccmapd ui' shows the page of a profile of ten million nodes, which is still being read,
// and after how long its graph, and the most memory of the server.
func (b *browsing) large(ctx context.Context) (string, error) {
	nodes := 10 * b.nodes
	path := b.Path(fmt.Sprintf("%d.pb.gz", nodes))
	if err := campaign.Once(path, func() error { return writeProfile(path, nodes, 1) }); err != nil {
		return "", err
	}
	tab, end, err := newTab(ctx)
	if err != nil {
		return "", err
	}
	defer end()
	t := &visit{tab, ours(b), ""}
	if err := t.prepare(); err != nil {
		return "", err
	}
	began := time.Now()
	is, err := startOurs(ctx, b.Ccmapd, path)
	defer is.end()
	if err != nil {
		return "", err
	}
	navigated := time.Since(began)
	l, err := t.load(chromedp.Navigate(is.address))
	if err != nil {
		return "", err
	}
	most, err := peakOf(is.cmd.Process.Pid)
	after := func(ms float64) string { return report.Number(navigated.Seconds()+ms/1000, 1) + " s" }
	return fmt.Sprintf("%s; %s; %s", after(l.Paint), after(l.Drawn), mib(most)), err
}

// peakOf returns the most memory that a process has had resident, bytes.
func peakOf(pid int) (float64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	var kib float64
	_, after, _ := strings.Cut(string(text), "VmHWM:")
	_, err = fmt.Sscan(after, &kib)
	return 1024 * kib, err
}
