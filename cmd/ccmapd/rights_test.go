package main

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// Capabilities that root's commands keep (linux/capability.h).
const (
	forFiles  = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH | 1<<unix.CAP_CHOWN | 1<<unix.CAP_FOWNER | 1<<unix.CAP_FSETID
	forAttach = forFiles | 1<<unix.CAP_PERFMON | 1<<unix.CAP_BPF | 1<<unix.CAP_SYS_PTRACE | 1<<unix.CAP_IPC_LOCK | 1<<unix.CAP_KILL
)

// permittedHere returns the capabilities that this test has.
func permittedHere(t *testing.T) uint64 {
	t.Helper()
	for text := range threadStatus(t, os.Getpid(), "CapPrm") {
		if n, err := strconv.ParseUint(text, 16, 64); err == nil {
			return n
		}
	}
	t.Fatal("no capabilities in /proc/self/status")
	return 0
}

// TestReadingIsConfined looks at a command that waits for its profile.
func TestReadingIsConfined(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"top", "-"}, {"convert", "-", "a.json"}, {"merge", "-o", "a.json", "-"}, {"overlap", "-", "a.json"}} {
		cmd := exec.Command("ccmapd", args...)
		cmd.Dir = t.TempDir()
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		defer stdin.Close()
		start(t, cmd)
		awaitStatus(t, cmd.Process.Pid, "NoNewPrivs", "1")
		awaitStatus(t, cmd.Process.Pid, "CapPrm", fmt.Sprintf("%016x", permittedHere(t)&forFiles))
		if privilege.HasSeccomp() {
			awaitStatus(t, cmd.Process.Pid, "Seccomp", "2")
		}
	}
}

// TestAttachKeepsWhatItNeeds looks at a command that samples.
func TestAttachKeepsWhatItNeeds(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(fakeName, "attach", "42", "-o", "a.json", "-d", "10m")
	cmd.Dir = t.TempDir()
	start(t, cmd)
	kept := permittedHere(t) & forAttach
	if !strings.Contains(capabilitiesOf(t), "sys_admin") {
		awaitStatus(t, cmd.Process.Pid, "CapPrm", fmt.Sprintf("%016x", kept))
	}
	awaitStatus(t, cmd.Process.Pid, "NoNewPrivs", "1")
}

// TestURLKeepsFilesOnly looks at a command that waits for a server.
func TestURLKeepsFilesOnly(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(server.Close)
	for _, name := range []string{"attach", "doctor"} {
		cmd := exec.Command("ccmapd", name, server.URL)
		cmd.Dir = t.TempDir()
		start(t, cmd)
		awaitStatus(t, cmd.Process.Pid, "CapPrm", fmt.Sprintf("%016x", permittedHere(t)&forFiles))
		awaitStatus(t, cmd.Process.Pid, "NoNewPrivs", "1")
	}
}

// capabilitiesOf returns the line of ccmapd version about them.
func capabilitiesOf(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("ccmapd", "version").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		if strings.HasPrefix(line, "capabilities: ") {
			return line
		}
	}
	t.Errorf("version says nothing of capabilities:\n%s", out)
	return ""
}

// TestStartedProgramHasAll looks at what a program has that run starts.
func TestStartedProgramHasAll(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("ccmapd", "run", "-q", "--anyway", "--", "cat", "/proc/self/status").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{fmt.Sprintf("CapPrm:\t%016x", permittedHere(t)), "NoNewPrivs:\t0", "Seccomp:\t0"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("a program that run starts has not %q:\n%s", want, out)
		}
	}
}

// TestSecurityPage holds that the tests that SECURITY.md names exist.
func TestSecurityPage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../SECURITY.md")
	if err != nil {
		t.Fatal(err)
	}
	exist := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err = filepath.WalkDir("../..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllSubmatch(text, -1) {
			exist[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`((?:Test|Fuzz)\\w+)`").FindAllSubmatch(page, -1)
	for _, m := range named {
		if !exist[string(m[1])] {
			t.Errorf("SECURITY.md names %s, and there is no such test", m[1])
		}
	}
	if len(named) < 10 {
		t.Errorf("SECURITY.md names %d tests", len(named))
	}
}

// TestBoundHolds: whatever the flags that are permitted, samples and caught calls of another
// user's process cost no more than the bound together, with the interval tuned or fixed. The
// tuner and the engine have that bound.
func TestBoundHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		f := newSamplingFlags(nil)
		f.interval = time.Duration(rapid.Int64Range(int64(100*time.Microsecond), int64(20*time.Millisecond)).Draw(t, "interval"))
		f.tune, f.overheadGiven = rapid.Bool().Draw(t, "tune"), rapid.Bool().Draw(t, "given")
		if f.overheadGiven {
			f.overhead = rapid.Float64Range(0, 10).Draw(t, "overhead")
		}
		f.ofHost = rapid.SampledFrom([]float64{0, 0.5, 1, 2}).Draw(t, "of host")
		f.values.hits = rapid.Float64Range(0, 2*borrowedHits).Draw(t, "hits")
		if f.bound() != nil {
			return // refused
		}
		if most := f.config(&environment{stderr: io.Discard}).MaxHost; most <= 0 || most > borrowedOfHost/100. {
			t.Errorf("timers may take %v of each CPU", most)
		}
		c := f.tuning()
		if c.Min < borrowedInterval || c.Initial < borrowedInterval {
			t.Errorf("intervals from %v, and %v at first", c.Min, c.Initial)
		}
		if c.MaxOverhead <= 0 || c.MaxOverhead > borrowedOverhead/100. || f.values.hits > borrowedHits {
			t.Errorf("sampling may cost %v, and %v calls be caught", c.MaxOverhead, f.values.hits)
		}
	})
}

// TestSymbolCache: the cache of the caller's debuginfod client goes to the engine, and is where that client has it.
func TestSymbolCache(t *testing.T) {
	for _, test := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"DEBUGINFOD_CACHE_PATH": "/c", "XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/c"},
		{map[string]string{"XDG_CACHE_HOME": "/x", "HOME": "/h"}, "/x/debuginfod_client"},
		{map[string]string{"DEBUGINFOD_CACHE_PATH": "relative", "HOME": "/h"}, "/h/.cache/debuginfod_client"},
		{nil, ""},
	} {
		if got := symbolCache(func(name string) string { return test.env[name] }); got != test.want {
			t.Errorf("%v: %q, want %q", test.env, got, test.want)
		}
	}
	t.Setenv("DEBUGINFOD_CACHE_PATH", "/c")
	var got string
	env := &environment{engines: []engine.Engine{{Name: "fake", Open: func(_ context.Context, o sampler.ProcessOptions) (engine.Source, error) {
		got = o.SymbolCache
		return &fakeSource{ProcessOptions: o}, nil
	}}}}
	f := newSamplingFlags(env.engines)
	if _, err := env.toProcess(t.Context(), f, os.Getpid())(sampler.ProcessOptions{}); err != nil || got != "/c" {
		t.Errorf("attached with %q, %v", got, err)
	}
}

// TestAttachByDaemonWritesNothing: where the daemon samples, the working directory need not be writable.
func TestAttachByDaemonWritesNothing(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root may start programs as another user")
	}
	const nobody = 65534
	path, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Copy(t, path, "ccmapd"), "attach", "--daemon", strconv.Itoa(os.Getpid()))
	cmd.Env = append(os.Environ(), "CCMAPD_SOCKET=/nonexistent/socket")
	cmd.Dir, cmd.SysProcAttr = "/", &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(out), "directory /") || strings.Contains(string(out), "directory .") || !strings.Contains(string(out), "daemon") {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestReasonsAreLines: where no engine may sample a process, attach and doctor have the reason of each in a line that
// is not too long, with the cure, and doctor does not say them twice.
func TestReasonsAreLines(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root may start programs as another user")
	}
	const nobody = 65534
	path, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	path = programtest.Copy(t, path, "ccmapd")
	for name, args := range map[string][]string{"attach": {"attach", "-o", "/tmp/never.json"}, "doctor": {"doctor"}} {
		cmd := exec.Command(path, append(args, strconv.Itoa(os.Getpid()))...)
		cmd.Dir, cmd.SysProcAttr = "/", &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitPermission {
			t.Errorf("%s exits with %d", name, code)
		}
		for _, reason := range []string{"perf: it belongs to another user", "jfr: it belongs to another user", "pprofhttp: its own profiles"} {
			if strings.Count(string(out), reason) != 1 {
				t.Errorf("%s has not %q once:\n%s", name, reason, out)
			}
		}
		for line := range strings.Lines(string(out)) {
			if len(line) > mostColumns+1 && !strings.Contains(line, "cure: ") {
				t.Errorf("%s: %d columns: %s", name, len(line)-1, line)
			}
			if _, reason, found := strings.Cut(line, "f: "); found && name == "attach" && !strings.Contains(reason, "run ") {
				t.Errorf("no cure: %s", line)
			}
		}
	}
}

// TestKernelNamesNeedRights: the kernel hides the addresses of its functions from other users, who are told so before
// anything is started. Root's ccmapd gives CAP_SYSLOG up when it has read them.
func TestKernelNamesNeedRights(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root may start programs as another user")
	}
	const nobody = 65534
	path, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programtest.Copy(t, path, "ccmapd"), "run", "--kernel-stacks", "--", "sh", "-c", "echo started")
	cmd.Dir, cmd.SysProcAttr = "/", &unix.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	switch paranoid, _ := os.ReadFile("/proc/sys/kernel/perf_event_paranoid"); {
	case strings.HasPrefix(string(paranoid), "1") || strings.HasPrefix(string(paranoid), "0") || strings.HasPrefix(string(paranoid), "-"):
		testrun.Lacks(t, "the kernel may show its addresses to all users")
	case err == nil || !strings.Contains(string(out), "CAP_SYSLOG") || strings.Contains(string(out), "started"):
		t.Errorf("%v\n%s", err, out)
	}
	cmd = exec.Command(fakeName, "attach", "42", "--kernel-stacks", "-o", "a.json", "-d", "10m")
	cmd.Dir = t.TempDir()
	start(t, cmd)
	kept := permittedHere(t) & forAttach
	if strings.Contains(capabilitiesOf(t), "sys_admin") {
		kept |= permittedHere(t) & (1 << unix.CAP_SYS_ADMIN)
	}
	awaitStatus(t, cmd.Process.Pid, "CapPrm", fmt.Sprintf("%016x", kept))
}
