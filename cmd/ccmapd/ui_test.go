package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/programtest"
)

// visitor is a browser as far as a page's server sees one.
type visitor struct {
	base    string // of the server
	token   string
	session string
}

// awaitPage reads what a command prints until the address of its page.
func awaitPage(t *testing.T, from io.Reader) (v visitor, page string) {
	t.Helper()
	lines := bufio.NewScanner(from)
	var seen []string
	for lines.Scan() {
		seen = append(seen, lines.Text())
		if address, ok := strings.CutPrefix(lines.Text(), "  http://"); ok {
			u, err := url.Parse("http://" + address)
			if err != nil {
				t.Fatal(err)
			}
			in, err := url.ParseQuery(u.Fragment)
			if err != nil || in.Get("token") == "" {
				t.Fatalf("%s has no token", u)
			}
			go io.Copy(io.Discard, from)
			return visitor{base: "http://" + u.Host, token: in.Get("token")}, u.RequestURI()
		}
	}
	t.Fatalf("no address is printed: %q", seen)
	return v, ""
}

// ask sends a request with a secret, and returns its status and the answer, once the profiles are read.
func (v visitor) ask(t *testing.T, method, path, secret string) (status int, text string) {
	t.Helper()
	for status, text = v.askNow(t, method, path, secret); status == http.StatusAccepted; {
		status, text = v.askNow(t, method, path, secret)
	}
	return status, text
}

// askNow sends one request.
func (v visitor) askNow(t *testing.T, method, path, secret string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, v.base+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+secret)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// enter exchanges the token.
func (v *visitor) enter(t *testing.T) {
	t.Helper()
	status, text := v.ask(t, http.MethodPost, "/session", v.token)
	var in struct {
		Session string `json:"session"`
	}
	if err := json.Unmarshal([]byte(text), &in); status != 200 || err != nil {
		t.Fatal(status, text, err)
	}
	v.session = in.Session
}

// startPage starts a command that shows a page.
func startPage(t *testing.T, cmd *exec.Cmd) (visitor, string) {
	t.Helper()
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	return awaitPage(t, out)
}

// TestUI: a page shows what the commands print of the same files, by number. Its server is confined; a second use of
// its address ends it.
func TestUI(t *testing.T) {
	t.Parallel()
	files, err := filepath.Abs("../../docs/session")
	if err != nil {
		t.Fatal(err)
	}
	a, b := filepath.Join(files, "web.pb.gz"), filepath.Join(files, "later.pb.gz")
	cmd := exec.Command("ccmapd", "ui", "--no-open", a, b)
	v, page := startPage(t, cmd)
	if page != "/compare?a=file:1&b=file:2" {
		t.Errorf("two files begin at %s", page)
	}
	if status, text := v.ask(t, http.MethodGet, page, ""); status != 200 || !strings.Contains(text, "<!doctype html>") || strings.Contains(text, v.token) {
		t.Errorf("the page: %d %.100s", status, text)
	}
	if status, _ := v.ask(t, http.MethodGet, "/v1/profiles", v.token); status != 401 {
		t.Errorf("the token lets in without an exchange: %d", status)
	}
	v.enter(t)
	if status, text := v.ask(t, http.MethodGet, "/v1/profiles", v.session); status != 200 || !strings.Contains(text, `"name": "later.pb.gz"`) || strings.Contains(text, files) {
		t.Errorf("%d %s", status, text)
	}
	for route, args := range map[string][]string{
		"/v1/p/file:1/top?limit=5":         {"top", "-n", "5", a},
		"/v1/p/file:2/flame?width=512":     {"flame", "--width", "512", b},
		"/v1/diff?a=file:1&b=file:2":       {"diff", a, b},
		"/v1/p/file:1/contexts?match=main": {"contexts", "--match", "main", a},
	} {
		status, got := v.ask(t, http.MethodGet, route, v.session)
		out, err := exec.Command("ccmapd", append(args, "--json")...).Output()
		if err != nil {
			t.Fatal(err)
		}
		if status != 200 || withoutNames(t, got) != withoutNames(t, string(out)) {
			t.Errorf("%s: %d, not what ccmapd %s prints:\n%.300s", route, status, strings.Join(args, " "), got)
		}
	}
	pid := cmd.Process.Pid
	awaitStatus(t, pid, "NoNewPrivs", "1")
	awaitStatus(t, pid, "CapPrm", fmt.Sprintf("%016x", permittedHere(t)&forFiles))
	if privilege.HasSeccomp() {
		awaitStatus(t, pid, "Seccomp", "2")
	}
	if status, _ := v.ask(t, http.MethodPost, "/session", v.token); status != 401 {
		t.Errorf("a second use: %d", status)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("after a second use: %v", err)
	}
}

// withoutNames decodes JSON and leaves out where the profiles are.
func withoutNames(t *testing.T, text string) string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %.200s", err, text)
	}
	var clean func(any) any
	clean = func(v any) any {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range []string{"ref", "file"} {
				if _, isText := v[key].(string); isText && (v["method"] == nil) {
					delete(v, key)
				}
			}
			for key := range v {
				v[key] = clean(v[key])
			}
		case []any:
			for i := range v {
				v[i] = clean(v[i])
			}
		}
		return v
	}
	out, err := json.Marshal(clean(value))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// TestUIOpensBrowser: another user than root gets a browser, which is led to the page by a file of mode 0600. The
// secret is in no argument. Ctrl-C is success, and removes the file.
func TestUIOpensBrowser(t *testing.T) {
	t.Parallel()
	needRoot(t)
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	dir := programtest.PublicDir(t, 0o777)
	opened := filepath.Join(dir, "opened")
	script := "#!/bin/sh\n{ stat -c %a \"$1\"; cat \"$1\"; echo \"$1\"; } >" + opened + ".new && mv " + opened + ".new " + opened + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	profile, err := os.ReadFile("../../docs/session/web.pb.gz")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "web.pb.gz")
	if err := os.WriteFile(file, profile, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Copy(t, self, "ccmapd"), "ui", file)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+dir+":/usr/bin:/bin", "DISPLAY=:0", "XDG_RUNTIME_DIR="+dir, "TMPDIR="+dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	v, _ := startPage(t, cmd)
	var text []byte
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if text, err = os.ReadFile(opened); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("no browser was opened")
		}
	}
	if !strings.HasPrefix(string(text), "600\n") || !strings.Contains(string(text), "#token="+v.token) {
		t.Errorf("the browser is led by\n%s", text)
	}
	line, err := os.ReadFile("/proc/" + strconv.Itoa(cmd.Process.Pid) + "/cmdline")
	if err != nil || strings.Contains(string(line), v.token) {
		t.Errorf("arguments: %q, %v", line, err)
	}
	v.enter(t)
	cmd.Process.Signal(unix.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	if _, err := os.Lstat(lines[len(lines)-1]); err == nil {
		t.Errorf("%s is left behind", lines[len(lines)-1])
	}
}

// TestUIFindsNothing: what cannot be shown is an error before a browser is opened.
func TestUIFindsNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args     []string
		code     int
		contains string
	}{
		{[]string{"ui"}, exitFailed, "A file needs none"},
		{[]string{"ui", "@web"}, exitFailed, "no daemon answers"},
		{[]string{"ui", "none.pb.gz"}, exitFailed, "Check the name"},
		{[]string{"ui", "-", "-"}, exitUsage, "standard input can be read once"},
		{[]string{"ui", "--port", "66000"}, exitUsage, "--port"},
	} {
		cmd := exec.Command("ccmapd", test.args...)
		cmd.Env = append(os.Environ(), "CCMAPD_SOCKET="+filepath.Join(t.TempDir(), "none"))
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != test.code || !strings.Contains(string(out), test.contains) || strings.Contains(string(out), "http://127") {
			t.Errorf("ccmapd %s: %d\n%s", strings.Join(test.args, " "), code, out)
		}
	}
}

// TestOpenShowsSession: the page of a session has its profile while it is sampled and after, in a process without
// capabilities that ends with it.
func TestOpenShowsSession(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(waitName, "attach", "42", "--open", "-o", "a.json")
	cmd.Dir = t.TempDir()
	v, page := startPage(t, cmd)
	if page != "/p/live:fake%20%2842%29/flame" && page != "/p/live:fake%20(42)/flame" {
		t.Errorf("it begins at %s", page)
	}
	v.enter(t)
	route := strings.Replace(page, "/p/", "/v1/p/", 1)
	await := func(what string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
			status, text := v.ask(t, http.MethodGet, route, v.session)
			if status == 200 && strings.Contains(text, what) {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%d %.500s, want %s", status, text, what)
			}
		}
	}
	await(`"executable": "/usr/bin/fake"`)
	child := childOf(t, cmd.Process.Pid)
	for _, set := range []string{"CapPrm", "CapEff"} {
		awaitStatus(t, child, set, "0000000000000000")
	}
	awaitStatus(t, child, "NoNewPrivs", "1")
	cmd.Process.Signal(unix.SIGINT)
	await(`"ended": "`)
	cmd.Process.Signal(unix.SIGINT)
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(child, 0); err == nil {
		t.Error("the page's process goes on")
	}
}

// childOf returns the one child of a process.
func childOf(t *testing.T, pid int) int {
	t.Helper()
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		text, err := os.ReadFile(task)
		if err != nil {
			t.Fatal(err)
		}
		if fields := strings.Fields(string(text)); len(fields) > 0 {
			child, err := strconv.Atoi(fields[0])
			if err != nil {
				t.Fatal(err)
			}
			return child
		}
	}
	t.Fatal("there is no child")
	return 0
}
