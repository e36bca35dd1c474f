package browser

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/api"
)

// startDaemon starts 'ccmapd serve', which follows VMs of this process, with so many samples at most, and a program that
// is not there. The port wants a password. The configuration has more.
func startDaemon(t *testing.T, most int, more string) (socket, port string) {
	t.Helper()
	g := &growing{m: ccmap.New(ccmap.Options{}), perLook: 40, most: most}
	g.add(1000, "leaf<i>", "serve", "main")
	mux := http.NewServeMux()
	mux.Handle("/debug/ccmapd/", http.StripPrefix("/debug/ccmapd", api.Handler(map[string]api.Session{"web": g})))
	vms := httptest.NewServer(mux)
	t.Cleanup(vms.Close)
	dir := t.TempDir()
	socket = filepath.Join(dir, "socket")
	free := httptest.NewServer(nil) // its port is free once it is closed
	port = strings.TrimPrefix(free.URL, "http://")
	free.Close()
	for name, text := range map[string]string{
		"web.yml":     "basic_auth_users:\n  reader: " + hashed + "\n",
		"ccmapd.toml": fmt.Sprintf("[listen]\nsocket = %q\ntcp = %q\nweb_config = %q\n\n[[target]]\nname = \"web\"\nmatch = { url = \"%s/debug/ccmapd\" }\n\n[[target]]\nname = \"none\"\nmatch = { exe = \"/no/such/program\" }\n%s", socket, port, filepath.Join(dir, "web.yml"), vms.URL, more),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(ccmapd, "serve", "--config", filepath.Join(dir, "ccmapd.toml"))
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("unix", socket); err == nil {
			conn.Close()
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatalf("the daemon does not listen:\n%s", log.String())
		}
	}
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Log(log.String())
		}
	})
	return socket, port
}

// hashed is the password "secret" by bcrypt, at the least cost.
const hashed = "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"

// TestDaemonPages: a daemon's port lets a browser in by its password, and 'ccmapd ui' by the socket with the rights of
// its caller. Both show its targets as the command prints them.
func TestDaemonPages(t *testing.T) {
	t.Parallel()
	socket, port := startDaemon(t, 0, "")
	env := []string{"CCMAPD_SOCKET=" + socket}
	script := axe(t)
	tb := open(t, startUI(t, env))
	tb.wait(`[...document.querySelectorAll("main td:nth-child(4)")].some((e) => e.textContent !== "0")`) // the page follows the daemon
	tb.checkTargets(env)
	tb.usable("targets", script)
	for _, address := range pagesOf("live:web", "leaf<i>") {
		tb.goTo(address)
		if n := eval[int](tb, `document.querySelectorAll("i").length`); n != 0 {
			t.Errorf("%s: a name has become an element", address)
		}
	}
	tb.goTo("/p/live:web/tuning")
	tb.goTo("/doctor?pid=" + strconv.Itoa(os.Getpid()))
	if got := rows(tb, "engines, the best first"); len(got) < 2 {
		t.Errorf("engines %q", got)
	}
	tb.usable("doctor", script)

	in := open(t, "http://"+port+"/", func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := cdp.Call(ctx, t, network.SetExtraHTTPHeaders, network.SetExtraHTTPHeadersParams{Headers: network.Headers{
			"Authorization": "Basic " + base64.StdEncoding.EncodeToString([]byte("reader:secret"))}})
		return chromedp.Void{}, err
	})
	in.checkTargets(env)
	in.goTo("/t/web/flame")
	in.wait(`document.querySelector(".tree").textContent.includes("leaf<i>")`)
	in.mayBeRefused()
	in.goTo("/doctor")
	if text := in.text(); !strings.Contains(text, "not permitted") || !strings.Contains(text, "ccmapd doctor @") {
		t.Errorf("a reader is told of the doctor: %.300s", text)
	}
}

// checkTargets compares the page of targets with the command. Counts grow meanwhile.
func (tb *tab) checkTargets(env []string) {
	tb.t.Helper()
	cmd := exec.Command(ccmapd, "targets", "--json")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.Output()
	if err != nil {
		tb.t.Fatal(err)
	}
	var want struct {
		Targets []struct {
			Name, State, Reason string
			Processes           []any
		}
	}
	if err := json.Unmarshal(out, &want); err != nil {
		tb.t.Fatal(err)
	}
	got := make(map[string][]string)
	for _, r := range rows(tb, "targets") {
		got[r[0]] = r
	}
	for _, w := range want.Targets {
		r := got[w.Name]
		if len(r) < 14 || !strings.HasSuffix(r[1], w.State) || number(r[8]) != int64(len(w.Processes)) || !strings.Contains(r[13], w.Reason) {
			tb.t.Errorf("the page has %q, the command %+v", r, w)
		}
	}
	if len(got) != len(want.Targets) {
		tb.t.Errorf("the page has %d targets, the command %d", len(got), len(want.Targets))
	}
}
