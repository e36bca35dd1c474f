package browser

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/store"
)

// filePeriods makes a store with two builds of web, an hour each: web.pb.gz and then later.pb.gz. It returns when they begin.
func filePeriods(t *testing.T, dir string) (begin [2]time.Time) {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const ago = 3 * time.Hour // no older than a day
	first := time.Now().UTC().Truncate(time.Hour).Add(-ago)
	for hour, name := range []string{"web.pb.gz", "later.pb.gz"} {
		m, _, err := export.ReadFile(session+name, export.ReadOptions{})
		if err != nil {
			t.Fatal(err)
		}
		from := first.Add(time.Duration(hour) * time.Hour)
		begin[hour] = from
		if _, err := s.File(store.Key{Target: "web", Build: fmt.Sprintf("b%d", hour), Owner: process.Unowned}, from, from.Add(time.Hour), m.Snapshot()); err != nil {
			t.Fatal(err)
		}
	}
	return begin
}

// askedBy returns the JSON of a command in an environment.
func askedBy[T any](t *testing.T, env []string, args ...string) (v T) {
	t.Helper()
	cmd := exec.Command(ccmapd, append(args, "--json")...)
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ccmapd %v: %v", args, err)
	}
	decode(t, out, &v)
	return v
}

// drag presses the mouse at a part of the width of an element, 0 to 1, and releases it at another one.
func (tb *tab) drag(element string, from, to float64) {
	tb.t.Helper()
	box := eval[[]float64](tb, `{ const e = document.querySelector(`+quote(element)+`); e.scrollIntoView({block: "center"}); const r = e.getBoundingClientRect(); [r.left, r.width, r.top + r.height / 2]; }`)
	x := func(part float64) float64 { return box[0] + part*box[1] }
	tb.do(chromedp.MouseEvent(chromedp.MousePressed, x(from), box[2], chromedp.ButtonLeft, chromedp.ClickCount(1)),
		chromedp.MouseEvent(chromedp.MouseMoved, x(to), box[2], chromedp.ButtonLeft),
		chromedp.MouseEvent(chromedp.MouseReleased, x(to), box[2], chromedp.ButtonLeft, chromedp.ClickCount(1)))
}

// TestTargetPage: a target's own page has the figures of the commands that it names. A drag over one stored profile shows
// it, one over two compares them; so do a link and two choices by keys.
func TestTargetPage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "store")
	begin := filePeriods(t, dir)
	socket, _ := startDaemon(t, 1041, fmt.Sprintf("\n[store]\nfiles = true\ndir = %q\nkeep = \"0\"\n", dir))
	env := []string{"CCMAPD_SOCKET=" + socket}
	tb := open(t, startUI(t, env))
	for begin := time.Now(); askedBy[targetsOf](t, env, "targets").Targets[1].Counters.Samples == 0; time.Sleep(100 * time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("nothing is sampled: %+v", askedBy[any](t, env, "targets"))
		}
	}
	tb.goTo("/")
	tb.click("web")
	tb.wait(`location.pathname === "/t/web" && document.querySelector("h1").textContent === "web" && document.body.dataset.state === "shown"`)
	tb.usable("target", axe(t))
	tb.hasOutline("target")
	target := askedBy[targetsOf](t, env, "targets").Targets
	if got := rows(tb, "target"); len(got) != 1 || got[0][0] != "web" || got[0][1] != target[1].State || number(got[0][3]) != target[1].Counters.Samples {
		t.Errorf("the page has %q, the command %+v", got, target)
	}
	for sort, caption := range map[string]string{"flat": "hottest by themselves", "cum": "hottest with all that they call"} {
		want := askedBy[struct {
			Methods []struct {
				Method    string
				Flat, Cum counters
			}
		}](t, env, "top", "-n", "10", "--sort", sort, "@web").Methods
		got := rows(tb, caption)
		for i, w := range want {
			if r := withoutNow(got[i]); len(got) != len(want) || r[1] != share(w.Flat.Percent) || r[3] != share(w.Cum.Percent) || r[5] != w.Method {
				t.Errorf("%s: the page has %q, the command %+v", caption, r, w)
			}
		}
	}
	if n := eval[int](tb, `document.querySelectorAll("main i").length`); n != 0 {
		t.Error("a name has become an element")
	}
	if drawn := eval[int](tb, `Number(document.querySelector(".flame").dataset.drawn)`); drawn == 0 {
		t.Error("there is no flame graph")
	}
	tb.checkStored(askedBy[stored](t, env, "store", "list", "--target", "web", "--dir", dir).Entries)

	const hours = "2006-01-02T15"
	tb.drag(".lanes", 0.1, 0.2)
	tb.wait(`location.pathname.startsWith("/p/period%3Aweb%40` + begin[0].Format(hours) + `") && document.body.dataset.state === "shown"`)
	tb.checkFlame(session + "web.pb.gz")
	tb.goTo("/t/web")
	tb.drag(".lanes", 0.1, 0.6)
	want := "Verdict: " + asked[struct{ Pairs []struct{ Verdict string } }](t, "overlap", session+"web.pb.gz", session+"later.pb.gz").Pairs[0].Verdict
	compared := `location.pathname === "/compare" && document.querySelector("h1")?.textContent === ` + quote(want)
	tb.wait(compared)
	tb.goTo("/t/web")
	choose := func(side, ref string) {
		t.Helper()
		tb.do(chromedp.Focus(fmt.Sprintf("input[name=%s][value^='%s']", side, ref)), chromedp.KeyEvent(" "))
	}
	choose("a", "period:web@"+begin[0].Format(hours))
	choose("b", "period:web@"+begin[1].Format(hours))
	tb.do(chromedp.Evaluate[chromedp.Void](`void [...document.querySelectorAll("button")].find((b) => b.textContent === "Compare A with B").focus()`), chromedp.KeyEvent(kb.Enter))
	tb.wait(compared)
	tb.goTo("/t/web")
	tb.do(chromedp.Evaluate[chromedp.Void](`void [...document.querySelectorAll("main td a")].find((a) => a.href.includes("/p/period") && a.textContent === "`+begin[1].Format(time.DateTime)+`").focus()`), chromedp.KeyEvent(kb.Enter))
	tb.wait(`location.pathname.startsWith("/p/period%3Aweb%40` + begin[1].Format(hours) + `") && document.body.dataset.state === "shown"`)

	tb.mayBeRefused() // nothing is sampled of it
	tb.goTo("/t/none")
	if text := tb.text(); !strings.Contains(text, "waiting") || !strings.Contains(text, "Nothing of it is stored.") {
		t.Errorf("a target without a process: %.500s", text)
	}
}

// targetsOf is the JSON of 'targets'.
type targetsOf struct {
	Targets []struct {
		Name, State string
		Counters    struct{ Samples int64 }
	}
}

// stored is the JSON of 'store list'.
type stored struct{ Entries []storedEntry }

type storedEntry struct {
	Kind, Build string
	From, To    time.Time
	Quality     *struct{ Samples int64 }
}

// checkStored compares the list of stored profiles with the command's. What is running has grown meanwhile.
func (tb *tab) checkStored(want []storedEntry) {
	t := tb.t
	t.Helper()
	got := rows(tb, "stored profiles, UTC")
	files := 0
	for _, w := range want {
		if w.Kind == "running" {
			continue
		}
		files++
		found := false
		for _, r := range got {
			found = found || r[0] == w.From.UTC().Format(time.DateTime) && r[1] == w.To.UTC().Format(time.DateTime) && r[2] == w.Kind && r[3] == w.Build && number(r[4]) == w.Quality.Samples
		}
		if !found {
			t.Errorf("the command has %+v, the page %q", w, got)
		}
	}
	if files != 4 {
		t.Errorf("the command has %d files: two periods, each the best of its build", files)
	}
}
