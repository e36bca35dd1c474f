package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// site is a web view of a profile.
type site struct {
	name    string
	start   func(context.Context) (server, error) // which has read its file
	picture string                                // is true when a picture is there
	drawn   string                                // … and it is whole
	hover   string                                // moves the pointer over the graph, to a place of its number i
	zoom    string                                // clicks on a frame; and again, to come back
	reads   []read                                // questions of the page's own server
}

// read is a question that a page asks.
type read struct{ name, route, again string } // again: parameters of another one

// server is the program of a site.
type server struct {
	cmd     *exec.Cmd // nil: it was not started
	address string    // of the page
	session string    // that lets a browser in; "": none is needed
}

func (s server) end() {
	if s.cmd != nil {
		s.cmd.Process.Signal(syscall.SIGTERM)
		s.cmd.Wait() // it is ended by a signal
	}
}

// ours is 'ccmapd ui'.
func ours(b *browsing) site {
	const clickAt = `const c = document.querySelector(".flame canvas"), r = c.getBoundingClientRect();
		const at = { clientX: r.left + 40, clientY: r.top + 20 * level + 10, bubbles: true };
		c.dispatchEvent(new MouseEvent("click", at))`
	return site{
		name:    "ccmapd",
		start:   func(ctx context.Context) (server, error) { return ready(ctx, b.Ccmapd, b.profile) },
		picture: `Number(document.querySelector(".flame")?.dataset.drawn) > 0`,
		drawn:   `document.body.dataset.state === "shown" && Number(document.querySelector(".flame")?.dataset.drawn) > 0`,
		hover: `{ const c = document.querySelector(".flame canvas"), r = c.getBoundingClientRect();
			c.dispatchEvent(new MouseEvent("mousemove", { clientX: r.left + 20 + 17 * i, clientY: r.top + 20 * (1 + i % 8) + 10, bubbles: true })) }`,
		zoom: `{ const level = 2; if (location.search.includes("root=")) history.back(); else { ` + clickAt + ` } }
			document.querySelector(".flame").removeAttribute("data-drawn")`,
		reads: []read{
			{"search of a text: first, again", "/v1/p/file:1/methods?q=method77", "&limit=7"}, {"search of an expression", "/v1/p/file:1/methods?match=Method7.%24", "&limit=7"},
			{"10,000 frames, asked for", "/v1/p/file:1/flame?width=10000&frames=20000", "&by=samples"},
		},
	}
}

// theirs is google/pprof's.
func theirs(b *browsing, pprof string) site {
	return site{
		name:    "pprof",
		start:   func(ctx context.Context) (server, error) { return startTheirs(ctx, pprof, b.profile) },
		picture: `document.querySelectorAll(".boxbg").length > 1`, drawn: `document.querySelectorAll(".boxbg").length > 1`,
		hover: `{ const all = document.querySelectorAll(".boxbg"), e = all[i % all.length]; e.dispatchEvent(new MouseEvent("mouseenter")) }`,
		zoom: `{ const all = document.querySelectorAll(".boxbg"); const e = all[Math.min(3, all.length - 1)];
			e.dispatchEvent(new MouseEvent("mousedown", { bubbles: true })); e.dispatchEvent(new MouseEvent("click", { bubbles: true })) }`,
	}
}

// mostMemory is what reading ten million nodes takes: the default is for files that nobody vouches for.
const mostMemory = "8GiB"

// startOurs starts 'ccmapd ui', and returns the address that lets a browser in. Its files may still be being read.
func startOurs(ctx context.Context, ccmapd string, profiles ...string) (server, error) {
	cmd := exec.CommandContext(ctx, ccmapd, append([]string{"ui", "--no-open", "--max-read-memory", mostMemory}, profiles...)...)
	out, err := cmd.StderrPipe()
	if err != nil {
		return server{}, err
	}
	if err := cmd.Start(); err != nil {
		return server{}, err
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if address, ok := strings.CutPrefix(lines.Text(), "  http://"); ok {
			go io.Copy(io.Discard, out)
			return server{cmd: cmd, address: "http://" + address}, nil
		}
	}
	return server{cmd: cmd}, errors.New("ccmapd ui has printed no address")
}

// ready starts 'ccmapd ui', enters, and waits until it answers.
func ready(ctx context.Context, ccmapd string, profiles ...string) (server, error) {
	s, err := startOurs(ctx, ccmapd, profiles...)
	if err != nil {
		return s, err
	}
	address, token, _ := strings.Cut(s.address, "#token=")
	at, err := url.Parse(address) // of the first page
	if err != nil {
		return s, err
	}
	at.Path = "/"
	_, text, err := fetch(ctx, http.MethodPost, at.JoinPath("/session"), token)
	if err != nil {
		return s, err
	}
	var in struct {
		Session string `json:"session"`
	}
	if err := json.Unmarshal(text, &in); err != nil {
		return s, err
	}
	s.address, s.session = address, in.Session
	for status := http.StatusAccepted; status == http.StatusAccepted; {
		if status, _, err = fetch(ctx, http.MethodGet, at.JoinPath("/v1/info"), s.session); err != nil {
			return s, err
		}
	}
	return s, nil
}

// fetch sends a request with a secret.
func fetch(ctx context.Context, method string, to *url.URL, secret string) (status int, text []byte, err error) {
	to.RawQuery = ""
	request, err := http.NewRequestWithContext(ctx, method, to.String(), nil)
	if err != nil {
		return 0, nil, err
	}
	request.Header.Set("Authorization", "Bearer "+secret)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil, err
	}
	defer answer.Body.Close()
	text, err = io.ReadAll(answer.Body)
	return answer.StatusCode, text, err
}

const theirPort = 34567

func startTheirs(ctx context.Context, pprof, profile string) (server, error) {
	at := fmt.Sprintf("http://127.0.0.1:%d/flamegraph", theirPort)
	cmd := exec.CommandContext(ctx, pprof, "-no_browser", fmt.Sprintf("-http=127.0.0.1:%d", theirPort), profile)
	if err := cmd.Start(); err != nil {
		return server{}, err
	}
	is := server{cmd: cmd, address: at}
	for wait := time.NewTicker(50 * time.Millisecond); ; {
		request, err := http.NewRequestWithContext(ctx, http.MethodHead, strings.TrimSuffix(at, "flamegraph")+"download", nil)
		if err != nil {
			return is, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err == nil {
			answer.Body.Close()
			return is, nil
		}
		select {
		case <-wait.C:
		case <-ctx.Done():
			return is, ctx.Err()
		}
	}
}

// buildPprof builds google/pprof as this module has it.
func buildPprof(ctx context.Context, to string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-o", to, "github.com/google/pprof")
	cmd.Dir = "scripts"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build pprof: %w\n%s", err, out)
	}
	return nil
}

func chromiumVersion(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "chromium", "--version").Output()
	if err != nil {
		return "Chromium"
	}
	return strings.Join(strings.Fields(string(out))[:2], " ")
}
