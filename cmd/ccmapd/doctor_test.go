package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/pprof"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/daemon"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// lessName is a program that gives up what its first argument names, and then is ccmapd:
// "cap=39", "call=298", "limit=8:65536", with commas between them.
const lessName = "ccmapd-less"

func mainWithLess() {
	runtime.LockOSThread() // rights belong to the thread, and exec takes those of its caller
	for less := range strings.SplitSeq(os.Args[1], ",") {
		if err := giveUp(less); err != nil {
			fmt.Fprintf(os.Stderr, "give up %s: %v\n", less, err)
			os.Exit(exitRunFailed)
		}
	}
	self, err := os.Executable()
	if err == nil {
		err = syscall.Exec(self, append([]string{"ccmapd"}, os.Args[2:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(exitRunFailed)
}

func giveUp(less string) error {
	kind, value, _ := strings.Cut(less, "=")
	first, second, _ := strings.Cut(value, ":")
	n, err := strconv.Atoi(first)
	if err != nil {
		return err
	}
	switch kind {
	case "cap":
		return unix.Prctl(unix.PR_CAPBSET_DROP, uintptr(n), 0, 0, 0)
	case "call":
		return refuse(uint32(n))
	}
	most, err := strconv.ParseUint(second, 10, 64)
	if err != nil {
		return err
	}
	return unix.Setrlimit(n, &unix.Rlimit{Cur: most, Max: most})
}

// refuse installs a filter that refuses a system call.
func refuse(call uint32) error {
	const nrOffset = 0 // struct seccomp_data: int nr
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: nrOffset},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: call, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	prog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&prog)), 0, 0)
}

// servesName is a program that serves its own profiles on loopback.
const servesName = "ccmapd-serves"

func mainServes() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(exitFailed)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	go http.Serve(l, mux)
	fmt.Println(l.Addr())
	for end := time.Now().Add(10 * time.Minute); time.Now().Before(end); { // a third of a core
		for start := time.Now(); time.Since(start) < 10*time.Millisecond; {
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// someone is a user whom no other test is: the kernel bounds the rings of each user.
const someone = 65533

// TestDoctorInSituations drops privileges for real. In each situation doctor names the
// engine that attach takes, or exits as attach does, and says which check failed.
func TestDoctorInSituations(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel() // with others, but one situation after another
	needEngine(t)
	needRoot(t)
	const allowed, refused, admin = "", "refused", "cap=21" // CAP_SYS_ADMIN includes the others
	drop := func(caps ...int) string {
		less := admin
		for _, c := range caps {
			less += fmt.Sprintf(",cap=%d", c)
		}
		return less
	}
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	less, ccmapd := programtest.Copy(t, self, lessName), programtest.Copy(t, self, "ccmapd")
	user := &syscall.Credential{Uid: someone, Gid: someone, Groups: []uint32{someone}}
	roots, users := startWorkloadAs(t, "/", nil), startWorkloadAs(t, "/", user)
	cat := startNamed(t, "ccmapd-no-go").Process.Pid
	serves := exec.Command(programtest.Copy(t, self, servesName))
	served, err := serves.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, serves)
	if line, err := bufio.NewReader(served).ReadString('\n'); err != nil {
		t.Fatalf("%s says %q, %v", servesName, line, err)
	}
	for _, s := range []struct {
		name    string
		less    string // of lessName; "": ccmapd itself
		program string // "": less
		asUser  bool
		spaced  bool // in a user namespace, as its root
		pid     int
		auto    string // allowed, refused, or the engine
		code    int
		failed  string // a check
		during  string // of attach; "": 200ms
	}{
		{name: "root", pid: roots},
		{name: "root, a user's", pid: users},
		{name: "without CAP_BPF", less: drop(unix.CAP_BPF), pid: roots, auto: "perf", failed: "capabilities"},
		{name: "without CAP_PERFMON", less: drop(unix.CAP_BPF, unix.CAP_PERFMON), pid: roots, auto: "perf", failed: "capabilities"},
		{name: "another user's, without capabilities", less: drop(unix.CAP_BPF, unix.CAP_PERFMON, unix.CAP_SYS_PTRACE), pid: users, auto: refused, code: exitPermission, failed: "owner"},
		{name: "user", asUser: true, pid: users, auto: "perf", failed: "capabilities"},
		{name: "user, root's", asUser: true, pid: roots, auto: refused, code: exitPermission, failed: "owner"},
		{name: "setcap", asUser: true, program: setcap(t, self, 0), pid: roots},
		{name: "no perf_event_open", less: fmt.Sprintf("call=%d", unix.SYS_PERF_EVENT_OPEN), pid: roots, auto: refused, code: exitPermission, failed: "system calls"},
		{name: "no perf_event_open, its own profiles", less: fmt.Sprintf("call=%d", unix.SYS_PERF_EVENT_OPEN), pid: serves.Process.Pid, auto: "pprofhttp", failed: "system calls", during: "1500ms"},
		{name: "no bpf", less: fmt.Sprintf("call=%d", unix.SYS_BPF), pid: roots, auto: "perf", failed: "system calls"},
		{name: "little locked memory", less: fmt.Sprintf("limit=%d:%d", unix.RLIMIT_MEMLOCK, 64<<10), asUser: true, pid: users, auto: "perf"},
		{name: "few files", less: fmt.Sprintf("limit=%d:40", unix.RLIMIT_NOFILE), asUser: true, pid: users, auto: refused, code: exitPermission, failed: "open files"},
		{name: "user namespace", spaced: true, pid: users, auto: refused, code: exitPermission, failed: "namespaces"},
		{name: "not Go", pid: cat, auto: refused, code: exitNoTarget, failed: "program"},
		{name: "no process", pid: 1 << 22, auto: refused, code: exitNoTarget, failed: "program"},
	} {
		t.Run(s.name, func(t *testing.T) {
			command := func(args ...string) *exec.Cmd {
				program := less
				switch {
				case s.program != "":
					program = s.program
				case s.less == "":
					program = ccmapd
				default:
					args = append([]string{s.less}, args...)
				}
				cmd := exec.Command(program, args...)
				cmd.Dir = programtest.PublicDir(t, 0o777)
				switch {
				case s.spaced:
					ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: someone, Size: 1}}
					cmd.SysProcAttr = &syscall.SysProcAttr{
						Cloneflags: syscall.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids,
						Credential: &syscall.Credential{NoSetGroups: true},
					}
				case s.asUser:
					cmd.SysProcAttr = &syscall.SysProcAttr{Credential: user}
				default:
					cmd.SysProcAttr = nil
				}
				return cmd
			}
			r, code := diagnose(t, command("doctor", "--json", strconv.Itoa(s.pid)))
			for tries := 1; s.auto == "pprofhttp" && r.Auto == "" && tries < 10; tries++ { // a socket has a second to answer
				r, code = diagnose(t, command("doctor", "--json", strconv.Itoa(s.pid)))
			}
			failed := slices.ContainsFunc(r.Checks, func(c engine.Check) bool { return c.Name == s.failed && !c.OK && c.Wanted != "" })
			if code != s.code || s.failed != "" && !failed {
				t.Errorf("doctor exits with %d, want %d, and %q among failed checks: %+v", code, s.code, s.failed, r)
			}
			if s.auto != allowed && s.auto != refused && r.Auto != s.auto || (r.Auto == "") != (s.auto == refused) {
				t.Errorf("auto is %q, want %q: %+v", r.Auto, s.auto, r)
			}
			attach := command("attach", strconv.Itoa(s.pid), "-d", cmp.Or(s.during, "200ms"), "-q", "-o", "a.json")
			out, err := attach.CombinedOutput()
			for tries := 1; s.auto == "pprofhttp" && err != nil && tries < 10; tries++ {
				attach = command("attach", strconv.Itoa(s.pid), "-d", s.during, "-q", "-o", "a.json")
				out, err = attach.CombinedOutput()
			}
			took := ""
			if profile, _, err := export.ReadFile(filepath.Join(attach.Dir, "a.json"), export.ReadOptions{}); err == nil {
				took = profile.Meta().Engine
			}
			if took != r.Auto || (err == nil) != (took != "") {
				t.Errorf("doctor says %q, attach takes %q: %v: %s", r.Auto, took, err, out)
			}
		})
	}
}

// diagnose runs doctor.
func diagnose(t *testing.T, cmd *exec.Cmd) (r engine.Report, code int) {
	t.Helper()
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, _ := cmd.Output() // the exit code says how it went
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("doctor prints %q, %v; %s", out, err, &stderr)
	}
	return r, cmd.ProcessState.ExitCode()
}

// TestDoctorForPeople: text has the checks, the cures, and the choice.
func TestDoctorForPeople(t *testing.T) {
	t.Parallel()
	r := runEngines(t, []engine.Engine{refusingEngine("bpf", fmt.Errorf("no BPF: %w", sampler.ErrUnsupported)), fakeEngine(true)}, "doctor")
	if r.code != exitOK || !strings.Contains(r.stdout, "ok   kernel: Linux ") || !strings.Contains(r.stdout, "no   engine bpf: no BPF") ||
		!strings.HasSuffix(r.stdout, "ok   engine fake: permitted, and took 30 samples\n'--engine auto' takes fake.\n") {
		t.Errorf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := runEngines(t, nil, "doctor", "x"); r.code != exitUsage {
		t.Errorf("doctor x exits with %d: %s", r.code, r.stderr)
	}
}

// TestDoctorOfOwnProfiles: a process has no URL to attach to, and doctor says what its profile had.
func TestDoctorOfOwnProfiles(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	const found = "a profile of one second at http://127.0.0.1:6060/debug/pprof, with samples: 3"
	err := printReport(&out, engine.Report{Auto: "pprofhttp", Engines: []engine.Diagnosis{{Engine: "pprofhttp", Permitted: true, Found: found, Samples: 3}}}, true)
	want := "ok   engine pprofhttp: permitted, and took " + found + "\n'--engine auto' takes pprofhttp.\n"
	if err != nil || out.String() != want {
		t.Errorf("prints %q, %v; want %q", out.String(), err, want)
	}
}

// TestDoctorOfDaemonIsBounded: the daemon's doctor reads profiles of processes, which users choose, within the
// daemon's bounds.
func TestDoctorOfDaemonIsBounded(t *testing.T) {
	t.Parallel()
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	serves := exec.Command(programtest.Copy(t, self, servesName))
	served, err := serves.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := serves.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		serves.Process.Kill()
		serves.Wait()
	})
	address, err := bufio.NewReader(served).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	d, err := daemon.New(daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	unbounded := engine.Endpoint(engine.EndpointOptions{Read: func(io.Reader) (*ccmap.Map, error) {
		t.Error("a profile is read without the bounds of the daemon")
		return ccmap.New(ccmap.Options{}), nil
	}})
	all := inBounds([]engine.Engine{fakeEngine(true), unbounded}, d)
	r := all[1].Diagnose(t.Context(), serves.Process.Pid, time.Second)
	for tries := 1; !r.Permitted && tries < 10; tries++ { // on a busy machine a program may not answer within a second
		if d, err = daemon.New(daemon.Options{}); err != nil { // a daemon does not ask a socket again so soon
			t.Fatal(err)
		}
		all = inBounds([]engine.Engine{fakeEngine(true), unbounded}, d)
		r = all[1].Diagnose(t.Context(), serves.Process.Pid, time.Second)
	}
	if !r.Permitted || !strings.Contains(r.Found, strings.TrimSpace(address)) || all[0].Name != "fake" {
		t.Errorf("%+v", r)
	}
}

// TestDoctorURL: doctor says whether the pprof endpoint of a program can be followed, and what its
// profiles lack.
func TestDoctorURL(t *testing.T) {
	t.Parallel()
	server, token := serveOwnProfile(t), filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewTLSServer(http.NotFoundHandler())
	web.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that the client breaks off
	t.Cleanup(web.Close)
	for args, want := range map[string]result{
		server.URL + " --bearer-file " + token: {exitOK, "ok   engine pprofhttp: permitted, and took 50 samples\n'ccmapd attach URL' can follow the program.\n", ""},
		server.URL:                             {exitPermission, "cure: ccmapd doctor URL --bearer-file FILE\n", "the server answers 401"},
		server.URL + "/v1/doctor":              {exitPermission, "", "the server answers 401"},
		web.URL:                                {exitPermission, "cure: ccmapd doctor URL --ca-file FILE\n", "certificate"},
		"http://127.0.0.1:1":                   {exitNoTarget, "no   endpoint: attach to http://127.0.0.1:1", "connection refused"},
		"http://me:secret@127.0.0.1:1":         {exitPermission, "", "a password does not belong into a URL"},
		server.URL + "/v1 --ca-file " + token:  {exitUsage, "", "--ca-file is for a pprof endpoint, not for a daemon"},
		server.URL + "/v1?pid=x":               {exitUsage, "", "names no process"},
		"1 --ca-file " + token:                 {exitUsage, "", "--ca-file is for a URL, not for a process"},
	} {
		r := runEngines(t, nil, append([]string{"doctor"}, strings.Fields(args)...)...)
		if r.code != want.code || !strings.Contains(r.stdout, want.stdout) || !strings.Contains(r.stderr, want.stderr) {
			t.Errorf("doctor %s: %+v, want %+v", args, r, want)
		}
	}
	r := runEngines(t, nil, "doctor", "--json", server.URL, "--bearer-file", token)
	var report engine.Report
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil || report.Auto != "pprofhttp" || len(report.Checks) != 3 || !strings.Contains(report.Checks[2].Found, "receivers are not known") {
		t.Errorf("%v: %s", err, r.stdout)
	}
}

// TestDoctorAsksADaemon: the daemon's report is printed as one's own, with its exit code.
func TestDoctorAsksADaemon(t *testing.T) {
	t.Parallel()
	socket := serveFake(t, &fakeDaemon{}, fakeEngine(true), refusingEngine("none", sampler.ErrNotManaged))
	pid := strconv.Itoa(os.Getpid())
	for args, want := range map[string]result{
		"@" + pid:                    {exitOK, "ok   engine fake: permitted, and took 30 samples\n", ""},
		"@":                          {exitOK, "'--engine auto' takes fake.\n", ""},
		"unix:" + socket + "#" + pid: {exitOK, "no   engine none: neither a Go program nor a JVM", ""},
		"unix:" + socket + "x":       {exitFailed, "", "no daemon answers on " + socket + "x"},
		"@2147483647":                {exitNoTarget, "", "no such process"},
		"@web":                       {exitUsage, "", "names no process"},
		daemonAt(t, socket).URL + "/v1/doctor?pid=" + pid: {exitOK, "'--engine auto' takes fake.\n", ""},
	} {
		r := ccmapdAt(t, socket, "doctor", args)
		if r.code != want.code || !strings.Contains(r.stdout, want.stdout) || !strings.Contains(r.stderr, want.stderr) {
			t.Errorf("doctor %s: %+v, want %+v", args, r, want)
		}
	}
	refusing := serveFake(t, &fakeDaemon{}, refusingEngine("none", sampler.ErrNotManaged))
	if r := ccmapdAt(t, refusing, "doctor", "@"+pid); r.code != exitNoTarget || !strings.Contains(r.stderr, sampler.ErrNotManaged.Error()) {
		t.Errorf("a refusal: %+v", r)
	}
}
