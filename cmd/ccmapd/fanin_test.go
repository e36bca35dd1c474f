package main

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/fanin"
	"github.com/ccmapd/ccmapd/internal/feedback/hotspot"
)

// calls returns a profile of one method that two others call so often.
func calls(samples int) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	m.Meta().Target.BuildID = "2e"
	callee := m.Names().Intern(ccmap.Method{Name: "web.Shape.area", Signature: "()D", Coordinate: ccmap.CoordinateBytecode})
	for i := range samples {
		caller := m.Names().Intern(ccmap.Method{Name: []string{"web.Circle.draw", "web.Square.draw"}[i%2], Signature: "()V", Coordinate: ccmap.CoordinateBytecode})
		m.Fold(&ccmap.Sample{Frames: []ccmap.Frame{{Method: callee}, {Method: caller, Offset: 7}}, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	return m.Snapshot()
}

// hubWithFanIn is a hub that has the fan-in of one build, and answers to questions about methods what it is told to, or
// that there is no such question. The requests it got are in asked.
func hubWithFanIn(t *testing.T, file []byte, methods string, asked *[]string) {
	t.Helper()
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch what := r.Method + " " + r.URL.Path; {
		case what == "POST /v1/fanin" && methods == "":
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		case what == "POST /v1/fanin":
			text, _ := io.ReadAll(r.Body)
			*asked = append(*asked, string(text))
			io.WriteString(w, methods)
			return
		}
		*asked = append(*asked, r.URL.RequestURI())
		if r.URL.Path == "/v1/fanin" {
			w.Write(file)
			return
		}
		w.Write([]byte(`[{"target": "web", "build": "1f0c", "unit": "cpu/nanoseconds"}]`))
	}))
	t.Cleanup(hub.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(hubVariable, hub.URL)
	t.Setenv(hubTokenVariable, token)
}

// TestFanInOfHub: the file of a build is got whole, with two requests for any number of methods, and methods are looked
// up in it. A file that is damaged is an error, whatever the hub says.
func TestFanInOfHub(t *testing.T) {
	var asked []string
	hubWithFanIn(t, fanin.Encode(fanin.Of(calls(900))), "", &asked)
	own := filepath.Join(t.TempDir(), "own.json")
	if err := export.WriteFile(own, calls(30)); err != nil {
		t.Fatal(err)
	}
	const requests = "/v1/builds?limit=500&target=web /v1/fanin?build=1f0c&target=web&unit=cpu%2Fnanoseconds"
	for args, want := range map[string]string{
		"fanin @hub/build:web":                                    "fan-in of 3 methods",
		"fanin @hub/build:web area":                               "called from 2 places, in 900 samples",
		"fanin @hub/best:web@1f --match draw":                     "is called from nowhere",
		"fanin OWN area --shared @hub/build:web":                  "Shared: 900 samples, own: 30. The shared source is used: it has more.",
		"contexts OWN area --shared @hub/build:web":               "is called from 2 places in the whole fleet: of its calls that has 900 samples, and this profile 30.",
		"contexts OWN --match area --shared @hub/build:web":       "@hub/build:web is of build 1f0c, and the profile of 2e",
		"hints OWN --shared @hub/build:web":                       "No hints",
		"fanin store " + own + "1.fi @hub/build:web OWN":          "3 created, 0 overwritten, 0 ties, 0 worse",
		"fanin store " + own + "2.fi OWN --json @hub/build:web":   `"overwritten": 1`,
		"fanin @hub/build:web --shared @hub/build:web Shape.area": "about equal, and it is fresher",
	} {
		asked = nil
		var out bytes.Buffer
		code := run(strings.Fields(strings.ReplaceAll(args, "OWN", own)), strings.NewReader(""), &out, &out)
		if code != exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit code %d, %s", args, code, &out)
		}
		if got := strings.Join(asked, " "); got != requests && got != requests+" "+requests {
			t.Errorf("%s asks for %s", args, got)
		}
	}
	hubWithFanIn(t, []byte("ccFi\x03no such file"), "", &asked)
	for _, args := range []string{"fanin @hub/build:web", "fanin " + own + " --shared @hub/build:web", "contexts " + own + " area --shared @hub/build:web", "fanin @hub/build:other area"} {
		var out bytes.Buffer
		if code := run(strings.Fields(args), strings.NewReader(""), &out, &out); code != exitFailed || !strings.Contains(out.String(), "damaged") {
			t.Errorf("%s: exit code %d, %s", args, code, &out)
		}
	}
}

// TestFanInOfOneMethod: a hub is asked for a method by its whole name, and for the file where it knows no such name, does
// not understand the question, or answers with what cannot be.
func TestFanInOfOneMethod(t *testing.T) {
	const list, post = "/v1/builds?limit=500&target=web", ` {"methods":[{"method":"web.Shape.area"}]}`
	const file = " /v1/fanin?build=1f0c&target=web&unit=cpu%2Fnanoseconds"
	for answer, c := range map[string]struct{ want, asks string }{
		`{"methods": 429, "list": [{"Name": "web.Shape.area", "Samples": 70, "Other": 30, "Callers": 21, "Listed": [{"Name": "a", "Samples": 40}]}]}`: {"called from more than 20 places, in 70 samples", list + post},
		`{"methods": 429, "list": []}`: {"called from 2 places, in 900 samples", list + post + file},
		`{"methods": 429, "list": [{"Name": "web.Shape.area", "Samples": 70, "Callers": 21}]}`: {"in 900 samples", list + post + file},
		`<html>`: {"in 900 samples", list + post + file},
		"":       {"in 900 samples", list + file},
	} {
		var asked []string
		hubWithFanIn(t, fanin.Encode(fanin.Of(calls(900))), answer, &asked)
		var out bytes.Buffer
		code := run([]string{"fanin", "@hub/build:web", "web.Shape.area"}, strings.NewReader(""), &out, &out)
		if code != exitOK || !strings.Contains(out.String(), c.want) || strings.Join(asked, " ") != c.asks {
			t.Errorf("%.80s: exit code %d, asked for %s, says %s", answer, code, asked, &out)
		}
	}
}

// TestFanInByDefault: of a profile of a daemon, fanin, contexts and hints say what the daemon keeps of the fleet, unless
// another source is named, or none. What cannot be read is left out, and said.
func TestFanInByDefault(t *testing.T) {
	t.Parallel()
	var own bytes.Buffer
	if err := export.Write(&own, export.JSON, calls(30)); err != nil {
		t.Fatal(err)
	}
	of := func(name string, fans []byte, code int) func(http.ResponseWriter, *http.Request) {
		return func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/p/live:" + name + "/map":
				w.Write(own.Bytes())
			case "/v1/p/live:" + name + "/fanin":
				w.WriteHeader(code)
				w.Write(fans)
			default:
				w.WriteHeader(http.StatusNotFound)
			}
		}
	}
	whole := fanin.Encode(fanin.Of(calls(900)))
	for _, c := range []struct {
		args    string
		answer  func(http.ResponseWriter, *http.Request)
		want    string
		without string
	}{
		{"contexts @web area", of("web", whole, 200), "is called from 2 places in the whole fleet: of its calls that has 900 samples, and this profile 30.", "left out"},
		{"contexts @web area --json", of("web", whole, 200), `"source": "the whole fleet"`, ""},
		{"fanin @web area", of("web", whole, 200), "Shared: 900 samples, own: 30. The shared source is used: it has more.", ""},
		{"hints @web", of("web", whole, 200), "No hints", "left out"},
		{"contexts @web area", of("web", nil, 404), "web.Shape.area", "fleet"},
		{"contexts @web area", of("web", nil, 503), "What the fleet knows of the callers is left out: ", "whole fleet"},
		{"contexts @web area", of("web", []byte("ccFi\x03no such file"), 200), "left out: read the whole fleet: damaged", "called from"},
		{"contexts @web area", of("web", []byte("ccFi\x01no such file"), 200), "left out: read the whole fleet: file of fan-in of another version: it is of version 1", "called from"},
		{"hints @web --mode 0", of("web", whole, 200), "compiled after 0.1 of the usual calls", "left out"},
		{"hints @web --mode 0", of("web", nil, 503), "What the fleet knows of the callers is left out: ", ""},
		{"hints @web --mode 1", of("web", nil, 503), "of no JVM that is known", "left out"},
		{"hints @web --mode 1 --shared @other", of("web", whole, 200), "--shared is for hints and --mode 0", ""},
		{"contexts @web area --shared=", of("web", whole, 200), "web.Shape.area", "fleet"},
		{"contexts @web area --event cpu", of("web", whole, 200), "in the whole fleet", "left out"},
		{"contexts @web area --event wait", of("web", nil, 503), "no sample type", "left out"},
		{"fanin @web area --shared @other", of("web", whole, 200), "404", "fleet"},
	} {
		socket := filepath.Join(t.TempDir(), "s")
		listener, err := net.Listen("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(c.answer)}
		go server.Serve(listener)
		got := ccmapdAt(t, socket, strings.Fields(c.args)...)
		server.Close()
		text := got.stdout + got.stderr
		fails := slices.Contains([]string{"404", "no sample type", "of no JVM that is known", "--shared is for hints and --mode 0"}, c.want)
		if (got.code == exitOK) == fails || !strings.Contains(text, c.want) || c.without != "" && strings.Contains(text, c.without) {
			t.Errorf("%s: exit code %d, %s", c.args, got.code, text)
		}
	}
}

// TestFanInFromStdin: a file of fan-in and a profile can both come from standard input.
func TestFanInFromStdin(t *testing.T) {
	t.Parallel()
	var profile bytes.Buffer
	if err := export.Write(&profile, export.JSON, calls(40)); err != nil {
		t.Fatal(err)
	}
	for _, in := range [][]byte{profile.Bytes(), fanin.Encode(fanin.Of(calls(40)))} {
		var out, errs bytes.Buffer
		code := run([]string{"fanin", "-", "area", "--json"}, bytes.NewReader(in), &out, &errs)
		var answer fanInAnswer
		if err := json.Unmarshal(out.Bytes(), &answer); err != nil || code != exitOK {
			t.Fatalf("exit code %d, %v: %s", code, err, &errs)
		}
		if len(answer.Methods) != 1 || answer.Methods[0].Samples != 40 || len(answer.Methods[0].Callers) != 2 || *answer.Methods[0].Callers[0].Offset != 7 {
			t.Errorf("%+v", answer)
		}
	}
}

// TestHintsNameTheFleet: a hint says from where its callee is called, if the shared source knows it better.
func TestHintsNameTheFleet(t *testing.T) {
	t.Parallel()
	callee, err := hotspot.ParseMethod("web.Shape.area()D")
	if err != nil {
		t.Fatal(err)
	}
	table := filepath.Join(t.TempDir(), "t.fi")
	if err := os.WriteFile(table, fanin.Encode(fanin.Of(calls(900))), 0o600); err != nil {
		t.Fatal(err)
	}
	f := hintsFlags{shared: sharedFlag{where: table}}
	for own, want := range map[int]string{30: ", called from 2 places in " + table, 890: "", 2000: ""} {
		hints := []hotspot.Hint{{Action: hotspot.Inline, Root: callee, Caller: callee, Callee: callee}}
		if err := f.callees(&environment{}, calls(own), hints); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		if err := printHints(&out, hotspot.NewFile(hints, nil)); err != nil || !strings.Contains(out.String(), "web.Shape.area:0"+want+"\n") {
			t.Errorf("%d own samples: %v %s", own, err, &out)
		}
	}
}
