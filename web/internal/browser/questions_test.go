package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/api"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// profilesOf has the profiles of a daemon and of a fleet, which are files, by reference.
type profilesOf map[string]string

func (p profilesOf) Ask(_ context.Context, about, _, _, _ string) (any, error) {
	switch about {
	case "status":
		return fleet.Status{}, nil
	case "targets", "outliers":
		return []any{}, nil
	}
	return []fleet.Build{
		{Target: "web", Build: "1f0d", Unit: "cpu/nanoseconds", Instances: 9, Classes: 1}, {Target: "web", Build: "1f0c", Unit: "cpu/nanoseconds", Instances: 9, Classes: 1},
	}, nil
}

func (p profilesOf) Profile(_ context.Context, ref, _ string, _ int64) ([]byte, error) {
	path, ok := p[ref]
	if !ok {
		return nil, fmt.Errorf("there is no %s", ref)
	}
	return os.ReadFile(path)
}

// targetsOfDaemon is what a daemon says of its targets: one of two processes, one whose samples have a window, and one
// that is refused.
const targetsOfDaemon = `{"targets": [
	{"name": "web", "hosted": true, "state": "sampling", "status": {"samples": 9, "lost_source": 0, "lost_queue": 0, "lost_corrupt": 0, "settled": {}}, "processes": [
		{"pid": 42, "state": "sampling", "status": {"samples": 5, "settled": {}}}, {"pid": 43, "state": "sampling", "status": {"samples": 4, "settled": {}}}]},
	{"name": "now", "hosted": true, "state": "sampling", "status": {"samples": 9, "settled": {}}, "processes": []}, {"name": "eval", "hosted": true, "state": "sampling", "status": {"samples": 9, "settled": {}}, "processes": []},
	{"name": "cron", "state": "refused", "reason": "perf_event_paranoid is 4", "cure": "setcap cap_perfmon+ep ccmapd", "status": {"samples": 0, "settled": {}}, "processes": []}]}`

// questioned serves the pages of a daemon with these targets, and of its fleet.
func questioned(t *testing.T) string {
	t.Helper()
	web, later := session+"web.pb.gz", session+"later.pb.gz"
	fleet := profilesOf{
		"live:web": later, "live:web:42": web, "best:web": web, "period:web@yesterday": web, "live:eval": session + "eval.xml.zst",
		"@hub/build:web@1f0c": web, "@hub/build:web@1f0d": later, "@hub/best:web": later,
	}
	recent := &growing{m: ccmap.New(ccmap.Options{Window: time.Minute})}
	recent.add(100, "lock", "serve", "main")
	data, now := api.Local(api.LocalOptions{Fleet: fleet}), api.Local(api.LocalOptions{Sessions: map[string]api.Session{"now": recent}})
	return servePages(t, "/", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/v1/targets":
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, targetsOfDaemon)
		case strings.HasPrefix(r.URL.Path, "/v1/targets/"):
			var all struct{ Targets []map[string]any }
			decode(t, []byte(targetsOfDaemon), &all)
			i := slices.IndexFunc(all.Targets, func(one map[string]any) bool { return one["name"] == path.Base(r.URL.Path) })
			json.NewEncoder(w).Encode(all.Targets[i])
		case strings.HasPrefix(r.URL.Path, "/v1/p/live:now/"):
			now.ServeHTTP(w, r)
		default:
			data.ServeHTTP(w, r)
		}
	}))
}

// TestQuestions answers the ten questions of docs/browser.md from the first page of a daemon, each by at most three
// clicks on what the pages show. Typing is no click.
func TestQuestions(t *testing.T) {
	t.Parallel()
	const most = 3
	web, later := session+"web.pb.gz", session+"later.pb.gz"
	tb, told := open(t, questioned(t)), questionsTold(t)
	clicks := 0
	click := func(text string) { tb.t.Helper(); clicks++; tb.click(text) }
	choose := func(name, value string) {
		t.Helper()
		clicks++
		tb.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`document.querySelector("input[name=%s][value='%s']").click()`, name, value)))
	}
	search := func(text string) {
		t.Helper()
		tb.do(chromedp.Evaluate[chromedp.Void](`{ const e = document.querySelector("input[type=search]"); e.value = ` + quote(text) + `; void e.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"})) }`))
	}
	title := func(begin string) {
		t.Helper()
		tb.wait(`document.body.dataset.state === "shown" && document.querySelector("h1")?.textContent.startsWith(` + quote(begin) + `)`)
	}
	// verdict checks that a comparison has the command's verdict.
	verdict := func(a, b string) {
		t.Helper()
		title("Verdict: ")
		want := asked[struct{ Pairs []struct{ Verdict string } }](t, "overlap", a, b).Pairs[0].Verdict
		if text := tb.text(); !strings.Contains(text, "Verdict: "+want) || !strings.Contains(text, "What changed") {
			t.Errorf("the comparison lacks %q: %.300s", want, text)
		}
	}
	for _, q := range []struct {
		question string
		way      func()
	}{
		{"What got slower since yesterday, and is it real?", func() { clicks++; tb.clickIn("web", "yesterday"); verdict(web, later) }},
		{"Who calls this lock?", func() {
			click("web")
			click("Top")
			search("mallocgc")
			tb.wait(`document.querySelector(".found")?.textContent.includes("mallocgc")`)
			click("runtime.mallocgc")
			title("runtime.mallocgc")
			tb.checkQuery(later, "runtime.mallocgc")
		}},
		{"Is this one replica different?", func() {
			choose("a", "live:web:42")
			choose("b", "live:web")
			click("Compare A with B")
			verdict(web, later)
		}},
		{"Which build made it worse?", func() {
			click("Fleet: builds, classes and outliers of all machines")
			click("beside the build before")
			verdict(web, later)
		}},
		{"What does all of JSON cost?", func() {
			click("web")
			search("bufio")
			tb.wait(`/bufio.*% of the whole/.test(document.querySelector(".found")?.textContent)`)
		}},
		{"What is hot now, and not in the whole run?", func() {
			click("now")
			clicks++
			tb.do(chromedp.Evaluate[chromedp.Void](`{ const e = [...document.querySelectorAll("label")].find((l) => l.textContent.startsWith("of")).querySelector("select"); e.value = "1"; void e.dispatchEvent(new Event("change")) }`))
			tb.wait(`location.search === "?recent=1" && document.body.dataset.state === "shown" && document.querySelector(".command code").textContent === "ccmapd flame --recent live:now" && document.querySelector(".tree").textContent.includes("lock")`)
		}},
		{"Does A call C through B, and how often?", func() {
			click("web")
			click("Paths")
			search("net/http.(*conn).serve > net/http.(*response).finishRequest")
			title("net/http.(*conn).serve > net/http.(*response).finishRequest")
			tb.checkQuery(later, "net/http.(*conn).serve > net/http.(*response).finishRequest")
		}},
		{"Which interface calls have one receiver for each caller?", func() {
			click("eval")
			click("Receivers")
			click("main.(*binary).eval(i32) i32")
			tb.wait(`[...document.querySelectorAll("caption")].some((e) => e.textContent.includes("by its callers"))`)
		}},
		{"Can I believe this profile?", func() {
			click("web")
			tb.wait(`document.querySelector(".strip").textContent.includes(" samples")`)
		}},
		{"Why is this process not sampled, or so rarely?", func() {
			if r := rows(tb, "targets")[0]; r[0] != "cron" || !strings.Contains(r[len(r)-1], "perf_event_paranoid is 4") || !strings.Contains(r[len(r)-1], "setcap cap_perfmon+ep ccmapd") {
				t.Errorf("the first target is %q", r)
			}
		}},
	} {
		tb.goTo("/")
		clicks = 0
		if q.way(); clicks > most || !strings.Contains(told[q.question], strconv.Itoa(clicks)) {
			t.Errorf("%s: %d clicks, docs/browser.md has %q", q.question, clicks, told[q.question])
		}
		delete(told, q.question)
	}
	for question := range told {
		t.Errorf("docs/browser.md has a way for %q, and no test follows it", question)
	}
}

// questionsTold returns the questions that docs/browser.md has a way for, with its clicks.
func questionsTold(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/browser.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "| question | way | clicks |\n| --- | --- | --- |\n")
	table, _, _ := strings.Cut(after, "\n\n")
	told := make(map[string]string)
	for row := range strings.SplitSeq(table, "\n") {
		cells := strings.Split(strings.Trim(row, "| "), " | ")
		told[cells[0]] = cells[len(cells)-1]
	}
	if len(told) != 10 {
		t.Errorf("docs/browser.md has %d questions", len(told))
	}
	return told
}

// TestZoomAtOnce: a frame that is clicked on is shown before the server has said what is below it, and the way back is
// the same page.
func TestZoomAtOnce(t *testing.T) {
	t.Parallel()
	var lines []string
	for i := range 3000 {
		lines = append(lines, fmt.Sprintf("main;serve;f%d;g%d 1", i%100, i))
	}
	tb := open(t, startUI(t, nil, folded(t, lines...)))
	tb.wait(`Number(document.querySelector(".flame").dataset.drawn) > 0`) // before, no frame is anywhere
	const clicked = `new Promise((done) => {
		const c = document.querySelector(".flame canvas"), r = c.getBoundingClientRect(), old = document.querySelector(".flame");
		c.dispatchEvent(new MouseEvent("click", { clientX: r.left + 2, clientY: r.top + 70, bubbles: true }));
		const state = document.body.dataset.state, detail = document.querySelector(".detail").textContent, crumbs = document.querySelector(".crumbs").textContent;
		done([state, detail.split(",")[0], crumbs]);
	})`
	got, err := chromedp.Run(tb, chromedp.Evaluate[[]string](clicked, chromedp.EvalAwaitPromise))
	if err != nil {
		t.Fatal(err)
	}
	if got[0] != "loading" || !strings.HasPrefix(got[1], "f") || !strings.HasPrefix(got[2], "(all) › main › serve › f") {
		t.Errorf("after the click: %q", got)
	}
	tb.wait(`document.body.dataset.state === "shown"`)
	if name := eval[string](tb, `document.querySelector(".crumbs b").textContent`); name != got[1] {
		t.Errorf("at once %s, at last %s", got[1], name)
	}
	before := eval[int](tb, `performance.getEntriesByType("resource").length`)
	tb.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("main > section").dataset.kept = "yes"; void history.back()`))
	tb.wait(`location.search === "" && document.body.dataset.state === "shown" && document.querySelector(".crumbs").textContent === ""`)
	if now := eval[int](tb, `performance.getEntriesByType("resource").length`); now != before {
		t.Errorf("back asks the server %d times for what it has said already", now-before)
	}
	if !eval[bool](tb, `document.querySelector("main > section").dataset.kept === "yes"`) {
		t.Error("back makes the page anew")
	}
}
