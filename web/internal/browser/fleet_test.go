package browser

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/fleet"
)

// hubOf is a hub with the profiles of files, by reference, that takes one token. It has two builds of web, of which
// one has two classes, and a target whose name wants to be more than text.
func hubOf(t *testing.T, profiles map[string]string) (hub *httptest.Server, empty *atomic.Bool) {
	t.Helper()
	at := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	const hostile = "<img src=x onerror=alert(1)>\u202e"
	builds := []fleet.Build{
		{Target: hostile, Build: "ba", Unit: "alloc_space/bytes", Instances: 1, Samples: 3, Classes: 1, Updated: at},
		{Target: "web", Build: "1f0d", Unit: "cpu/nanoseconds", Instances: 11, Samples: 81_000, Independent: 70_000.4, Classes: 2, Settled: 96.4, Outliers: 1, Updated: at},
		{Target: "web", Build: "1f0c", Unit: "cpu/nanoseconds", Instances: 4, Samples: 900, Classes: 1, Updated: at.Add(-time.Hour)},
	}
	outlier := fleet.Outlier{Instance: "2b7e1516aa", Since: at, Last: at, Class: 1, Others: 9, Overlap: 52, Expected: 97, Method: "compress/flate.(*compressor).deflate" + hostile, Points: 48.6, Error: 1.2}
	whole := fleet.Description{Build: builds[1],
		ClassList: []fleet.Class{
			{Class: 0, Instances: 9, Samples: 72_000, Settled: 96.4, IsSettled: true, LeftOut: &fleet.LeftOut{Instances: 9, Overlap: 95.2, Error: 0.4}, Overlaps: []fleet.Overlap{{Class: 1, Overlap: 52.1, Expected: 97.3, Verdict: "different"}}},
			{Class: 1, Instances: 2, Samples: 9000, Overlaps: []fleet.Overlap{{Class: 0, Overlap: 52.1, Expected: 97.3, Verdict: "different"}}},
		},
		OutlierList: []fleet.Outlier{outlier}, Times: []fleet.Times{{Level: "hour", From: at, Samples: 500, Bytes: 1 << 20}, {Level: "day", From: at.Truncate(24 * time.Hour), Samples: 9000, Bytes: 1 << 21}},
	}
	empty = new(atomic.Bool)
	mux := http.NewServeMux()
	answer := func(route string, v any) {
		mux.HandleFunc("GET /v1/"+route, func(w http.ResponseWriter, r *http.Request) {
			if empty.Load() && route != "status" {
				v = []any{}
			}
			json.NewEncoder(w).Encode(v)
		})
	}
	answer("builds", builds)
	answer("outliers", []fleet.OutlierOf{{Target: "web", Build: "1f0d", Unit: "cpu/nanoseconds", Outlier: outlier}})
	answer("build", whole)
	answer("nearest", []fleet.Near{{Build: builds[2], Kept: 72.64}})
	answer("status", fleet.Status{Waiting: 7, Lag: 90 * time.Second, Since: at, Accepted: 4321, Refused: map[string]uint64{"429": 2, "401": 1}})
	mux.HandleFunc("POST /v1/fanin", func(w http.ResponseWriter, r *http.Request) {
		var wanted fleet.Wanteds
		if err := json.NewDecoder(r.Body).Decode(&wanted); err != nil || len(wanted.Methods) != 1 {
			http.Error(w, "no methods", http.StatusBadRequest)
			return
		}
		all := fanInOf(t, session+"web.pb.gz")
		found := fleet.Found[fanin.Entry]{Methods: len(all), List: []fanin.Entry{}}
		for _, e := range all {
			if e.Name == wanted.Methods[0].Method {
				found.List = append(found.List, e)
			}
		}
		json.NewEncoder(w).Encode(found)
	})
	mux.HandleFunc("GET /v1/p/{ref...}", func(w http.ResponseWriter, r *http.Request) {
		if path, ok := profiles[r.PathValue("ref")]; ok {
			http.ServeFile(w, r, path)
			return
		}
		http.Error(w, "there is no "+r.PathValue("ref"), http.StatusNotFound)
	})
	hub = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer reader" {
			http.Error(w, "no known token", http.StatusUnauthorized)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(hub.Close)
	return hub, empty
}

// fanInOf returns the fan-in of a profile.
func fanInOf(t *testing.T, path string) fanin.List {
	m, _, err := export.ReadFile(path, export.ReadOptions{})
	if err != nil {
		t.Error(err)
		return nil
	}
	return fanin.Of(m.Snapshot())
}

// TestFleetPage: the page of the fleet has the figures of 'ccmapd fleet' and leads to graphs and comparisons of the hub's
// profiles. The hub's token never reaches the browser. A hub that has nothing, and one that is away, are shown as such.
func TestFleetPage(t *testing.T) {
	t.Parallel()
	web, later := session+"web.pb.gz", session+"later.pb.gz"
	hub, empty := hubOf(t, map[string]string{"best:web": web, "build:web@1f0d": later, "build:web@1f0c": web, "class-1:web@1f0d": later, "class-0:web@1f0d": web})
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("reader\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{"CCMAPD_HUB=" + hub.URL, "CCMAPD_HUB_TOKEN_FILE=" + token, "CCMAPD_HUB_CA_FILE=", "CCMAPD_SOCKET=/none"}
	script := axe(t)
	tb := open(t, startUI(t, env, "@hub"))
	ask := func(to any, args ...string) {
		t.Helper()
		cmd := exec.Command(ccmapd, append(append([]string{"fleet"}, args...), "--json")...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		decode(t, out, to)
	}
	var targets []struct {
		Target                      string
		Builds, Instances, Outliers int64
		Samples                     int64
	}
	ask(&targets, "targets")
	got := rows(tb, "targets of the fleet")
	if len(got) != len(targets) || len(got) != 2 {
		t.Fatalf("the page has %q, the command %+v", got, targets)
	}
	for i, w := range targets {
		if r := got[i]; number(r[1]) != w.Builds || number(r[2]) != w.Instances || number(r[3]) != w.Samples || number(strings.TrimPrefix(r[4], "⚠ ")) != w.Outliers {
			t.Errorf("the page has %q, the command %+v", r, w)
		}
	}
	var builds []fleet.Build
	ask(&builds, "builds")
	for i, r := range rows(tb, "builds of the fleet") {
		if w := builds[i]; r[2] != w.Build || number(r[3]) != int64(w.Instances) || number(r[4]) != w.Samples || number(r[5]) != int64(w.Classes) || number(strings.TrimPrefix(r[7], "⚠ ")) != int64(w.Outliers) {
			t.Errorf("the page has %q, the command %+v", r, w)
		}
	}
	if n := eval[int](tb, `document.querySelectorAll("img").length`); n != 0 || strings.ContainsRune(tb.text(), '\u202e') {
		t.Errorf("names have become %d elements, or turn text around", n)
	}
	var status fleet.Status
	ask(&status, "status")
	if text := tb.text(); !strings.Contains(text, fmt.Sprintf("%d of what was sent are to be merged yet, the oldest for 1.50 min", status.Waiting)) || !strings.Contains(text, "4,321 contributions and refused 3: 1 with 401, 2 with 429") {
		t.Errorf("the page lacks the lag or what was refused, %+v: %.600s", status, text)
	}
	tb.usable("fleet", script)
	tb.hasOutline("fleet")

	tb.click("beside the build before") // which build made it worse
	tb.wait(`location.pathname === "/compare" && document.querySelector("h1")?.textContent.startsWith("Verdict: ")`)
	if text := tb.text(); !strings.Contains(text, "@hub/build:web@1f0c") || !strings.Contains(text, "@hub/build:web@1f0d") {
		t.Errorf("the comparison is of others: %.300s", text)
	}
	tb.goTo("/fleet")
	tb.click("2 classes")
	tb.wait(`document.querySelector("h1")?.textContent === "web@1f0d"`)
	var d fleet.Description
	ask(&d, "show", "web@1f0d")
	classes := rows(tb, "classes")
	for i, w := range d.ClassList {
		r := classes[i]
		o := w.Overlaps[0]
		if len(r) != 7 || number(r[0]) != int64(w.Class) || number(r[2]) != w.Samples || r[5+o.Class] != fmt.Sprintf("%.1f %% (%.1f %%)", o.Overlap, o.Expected) || r[5+w.Class] != "–" {
			t.Errorf("the page has %q, the command %+v", r, w)
		}
	}
	if got := rows(tb, "outliers"); len(got) != 1 || !strings.HasPrefix(got[0][3], "+49 ± 2 points in compress/flate") || got[0][4] != "9 others" {
		t.Errorf("outliers %q", got)
	}
	var near []fleet.Near
	ask(&near, "nearest", "web@1f0d")
	if got := rows(tb, "profiles of other builds"); len(got) != 1 || got[0][0] != share(near[0].Kept) || got[0][1] != near[0].Build.Build || number(got[0][2]) != near[0].Samples {
		t.Errorf("the page has %q, the command %+v", got, near)
	}
	if got := rows(tb, "hours and days"); len(got) != len(d.Times) || got[0][1] != "2026-11-28T10" || got[1][1] != "2026-11-28" {
		t.Errorf("times %q", got)
	}
	tb.usable("a build of the fleet", script)
	tb.hasOutline("build")
	tb.fleetFanIn(t, env)
	tb.goTo("/fleet?name=web@1f0d")
	tb.click("52.1 % (97.3 %)") // is this class different
	tb.wait(`document.querySelector("h1")?.textContent.startsWith("Verdict: ")`)
	tb.goTo("/p/" + url.PathEscape("@hub/best:web") + "/flame")
	tb.checkFlame(web)
	if text := eval[string](tb, `document.querySelector(".command code").textContent`); text != "ccmapd flame @hub/best:web" {
		t.Errorf("the command is %q", text)
	}

	empty.Store(true)
	tb.goTo("/fleet")
	if text := tb.text(); !strings.Contains(text, "The hub has no profiles that you may see.") {
		t.Errorf("an empty hub: %.300s", text)
	}
	hub.Close()
	tb.mayBeRefused()
	tb.do(chromedp.Evaluate[chromedp.Void]("history.pushState(null, '', '/fleet'); void dispatchEvent(new PopStateEvent('popstate'))"))
	tb.wait(`document.body.dataset.state === "failed"`)
	if text := tb.text(); !strings.Contains(text, "hub") || !strings.Contains(text, "refused") {
		t.Errorf("a hub that is away: %.300s", text)
	}
}

// fleetFanIn asks who calls a method in the whole fleet: in each target, and in a build, by its name and by a part of it.
// Figures are those of the command that the page names.
func (tb *tab) fleetFanIn(t *testing.T, env []string) {
	t.Helper()
	const method = "runtime.mallocgc"
	cmd := exec.Command(ccmapd, "fanin", "@hub/build:web@1f0d", method, "--json")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var want struct {
		Methods []struct {
			Samples, Other int64
			Callers        []struct {
				Method  string
				Samples int64
				Offset  *int
			}
		}
	}
	decode(t, out, &want)
	if len(want.Methods) != 1 || len(want.Methods[0].Callers) < 2 {
		t.Fatalf("the command has %+v", want)
	}
	is := want.Methods[0]
	find := func(text string) {
		tb.do(chromedp.Evaluate[chromedp.Void](`{ const e = document.querySelector("input[type=search]"); e.value = ` + quote(text) + `; void e.dispatchEvent(new KeyboardEvent("keydown", {key: "Enter"})) }`))
		tb.wait(`document.body.dataset.state === "shown" && new URLSearchParams(location.search).get("method") === ` + quote(text))
	}
	tb.goTo("/fleet")
	find(method)
	if got := rows(tb, "fan-in of "+method); len(got) != 1 || got[0][0] != "web" || number(got[0][1]) != is.Samples || got[0][2] != fmt.Sprintf("%d places", len(is.Callers)) || got[0][3] != is.Callers[0].Method {
		t.Errorf("the page has %q, the command %+v", got, is)
	}
	tb.goTo("/fleet?name=web@1f0d")
	find("MALLOCGC")
	if !strings.Contains(tb.text(), "0 methods with") {
		t.Errorf("capitals find: %.500s", tb.text())
	}
	find("mallocgc")
	tb.click(method)
	tb.wait(`document.querySelectorAll(".command").length > 0 && [...document.querySelectorAll("caption")].some((e) => e.textContent.startsWith("runtime.mallocgc is called from "))`)
	got := rows(tb, method+" is called from")
	if len(got) != len(is.Callers) {
		t.Fatalf("the page has %d callers, the command %d", len(got), len(is.Callers))
	}
	for i, w := range is.Callers {
		if r := got[i]; number(r[0]) != w.Samples || r[1] != share(100*float64(w.Samples)/float64(is.Samples)) || r[2] != w.Method || r[3] != fmt.Sprintf("+%d", *w.Offset) {
			t.Errorf("the page has %q, the command %+v", r, w)
		}
	}
	if all := eval[[]string](tb, `[...document.querySelectorAll(".command code")].map((e) => e.textContent)`); all[len(all)-1] != "ccmapd fanin @hub/build:web@1f0d "+method {
		t.Errorf("the commands are %q", all)
	}
}
