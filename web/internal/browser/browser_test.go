// Package browser tests the pages in Chromium: figures, keys, hostile names, and that no page asks anything of anybody
// else. Without Chromium the tests are skipped, unless CCMAPD_REQUIRE_BROWSER=1.
package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

var ccmapd string // the command, built once

func TestMain(m *testing.M) {
	os.Exit(run(testrun.Guard(m)))
}

func run(m testrun.Guarded) int {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if ccmapd, err = programtest.Command("../../..", dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// tab is a page in Chromium, with all that went wrong in it.
type tab struct {
	context.Context
	t      *testing.T
	isFile bool

	mu      sync.Mutex
	wrong   []string
	refused bool // a request may be refused, which the browser logs
}

// open opens a page, after some actions, and fails at the end if it has asked for something else, or said a word on its console.
func open(t *testing.T, address string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	tb := visit(t, address, before...)
	tb.wait(`document.body.dataset.state === "shown"`)
	return tb
}

// visit does so without waiting for the page.
func visit(t *testing.T, address string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CCMAPD_REQUIRE_BROWSER") == "1" {
			t.Fatal(err)
		}
		t.Skip("there is no chromium: apt-get install chromium")
	}
	all := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WindowSize(1280, 900))
	if os.Geteuid() == 0 {
		all = append(all, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(t.Context(), all...)
	t.Cleanup(cancel)
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	ctx, cancel = context.WithTimeout(ctx, 15*time.Minute)
	t.Cleanup(cancel)
	from, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	tb := &tab{Context: ctx, t: t, isFile: from.Scheme == "file"}
	tb.do(chromedp.Navigate("about:blank"))
	tb.do(before...)
	if err := chromedp.Listen(ctx, func(ev any) { tb.hear(ev, from) }); err != nil {
		t.Fatal(err)
	}
	tb.do(chromedp.Navigate(address))
	t.Cleanup(tb.check)
	return tb
}

// hear notes what no page may do: requests elsewhere, exceptions, reports of the policy, anything on the console.
func (tb *tab) hear(ev any, from *url.URL) {
	wrong := ""
	switch ev := ev.(type) {
	case *network.EventRequestWillBeSent:
		to, err := url.Parse(ev.Request.URL)
		if err == nil && (to.Scheme == "data" || to.Scheme == from.Scheme && to.Host == from.Host && (to.Scheme != "file" || to.Path == from.Path)) {
			return
		}
		wrong = "request to " + ev.Request.URL
	case *runtime.EventExceptionThrown:
		wrong = "exception: " + ev.ExceptionDetails.Text
		if e := ev.ExceptionDetails.Exception; e != nil {
			wrong += " " + e.Description
		}
	case *runtime.EventConsoleAPICalled:
		wrong = fmt.Sprintf("console.%s", ev.Type)
	case *log.EventEntryAdded:
		wrong = "log: " + ev.Entry.Text
	default:
		return
	}
	tb.mu.Lock()
	defer tb.mu.Unlock()
	if tb.refused && strings.Contains(wrong, "status of ") {
		return
	}
	tb.wrong = append(tb.wrong, wrong)
}

// mayBeRefused lets the page ask for what it may not see.
func (tb *tab) mayBeRefused() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	tb.refused = true
}

func (tb *tab) check() {
	tb.mu.Lock()
	defer tb.mu.Unlock()
	for _, w := range tb.wrong {
		tb.t.Error(w)
	}
}

func (tb *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	tb.t.Helper()
	if err := chromedp.Do(tb, steps...); err != nil {
		tb.t.Fatal(err)
	}
}

// wait waits until an expression is true. A page that is being loaded has no context for a while, which is no error.
func (tb *tab) wait(expression string) {
	tb.t.Helper()
	page, next := "", time.Now() // as it was last, at most once a second: a large page is long in telling its text
	for tick := time.NewTicker(20 * time.Millisecond); ; <-tick.C {
		done, err := chromedp.Run(tb, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		if done && err == nil {
			return
		}
		if tb.Err() != nil {
			tb.t.Fatalf("%s: %v, %v\nbefore: %s", expression, err, tb.wrong, page)
		}
		if err == nil && time.Now().After(next) {
			next = time.Now().Add(time.Second)
			page, _ = chromedp.Run(tb, chromedp.Evaluate[string](`location.hash + " " + (document.activeElement?.value ?? "") + " " + document.body.innerText.slice(0, 600)`))
		}
	}
}

func eval[T any](tb *tab, expression string) T {
	tb.t.Helper()
	v, err := chromedp.Run(tb, chromedp.Evaluate[T](expression))
	if err != nil {
		tb.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// click follows a link or presses a button, by its text.
func (tb *tab) click(text string) { tb.t.Helper(); tb.clickIn("", text) }

// clickIn does so in the first row of a table that begins with a text.
func (tb *tab) clickIn(row, text string) {
	tb.t.Helper()
	at := fmt.Sprintf(`[...document.querySelectorAll("a, button")].find((e) => e.textContent === %s && (%s === "" || e.closest("tr")?.cells[0].textContent === %[2]s))`, quote(text), quote(row))
	tb.wait(at)
	tb.do(chromedp.Evaluate[chromedp.Void](at + ".click()"))
	tb.wait(`document.body.dataset.state === "shown"`)
}

// text returns the page as it is read.
func (tb *tab) text() string { return eval[string](tb, "document.body.innerText") }

// goTo follows an address within the page: of a file behind the '#'.
func (tb *tab) goTo(address string) {
	tb.t.Helper()
	if !tb.isFile {
		tb.do(chromedp.Evaluate[chromedp.Void]("history.pushState(null, '', " + quote(address) + "); void dispatchEvent(new PopStateEvent('popstate'))"))
		tb.wait(`document.body.dataset.state !== "loading"`)
		if state := eval[string](tb, "document.body.dataset.state"); state != "shown" {
			tb.t.Fatalf("%s: %s: %.500s", address, state, tb.text())
		}
		return
	}
	tb.do(chromedp.Evaluate[chromedp.Void]("void (location.hash = " + quote(address) + ")"))
	tb.wait("decodeURIComponent(location.hash) === decodeURIComponent(" + quote("#"+address) + ") && document.body.dataset.state === 'shown'")
}

func quote(s string) string {
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// command runs ccmapd, and returns its output.
func command(t *testing.T, args ...string) []byte {
	t.Helper()
	cmd := exec.Command(ccmapd, args...)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ccmapd %v: %v\n%s", args, err, errs.String())
	}
	return out
}

// asked returns the JSON of a command.
func asked[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	decode(t, command(t, append(args, "--json")...), &v)
	return v
}

func decode(t *testing.T, text []byte, to any) {
	t.Helper()
	if err := json.Unmarshal(text, to); err != nil {
		t.Fatalf("%v: %.300s", err, text)
	}
}

// page writes the page of profiles, and returns its address.
func page(t *testing.T, args ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.html")
	command(t, append([]string{"html", "-o", path}, args...)...)
	return "file://" + path
}

// folded writes a profile of stacks.
func folded(t *testing.T, lines ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "profile.folded")
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
