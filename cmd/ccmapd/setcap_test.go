package main

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/demo"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// A ccmapd with file capabilities, as docs/permissions.md says to make it, on behalf of a user
// who has none.

// nobody is that user.
const nobody = 65534

// needRoot skips a test that gives files capabilities and becomes another user.
func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can run this test")
	}
}

// builtCcmapd returns ccmapd as a program of its own, as the go command builds it here.
func builtCcmapd(t *testing.T) string {
	t.Helper()
	file, err := programtest.Command("../..", t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// buildStatic builds ccmapd without cgo.
func buildStatic(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ccmapd")
	build := exec.Command("go", "build", "-o", file, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build ccmapd: %v\n%s", err, out)
	}
	return file
}

// setcap copies a program and gives the copy the capabilities that docs/permissions.md names: in
// effect as it starts (effective 1), or only permitted (0).
func setcap(t *testing.T, program string, effective uint32) string {
	t.Helper()
	file := programtest.Copy(t, program, "ccmapd")
	// struct vfs_cap_data of linux/capability.h, revision 2; the lower 32 of permitted
	// and inheritable, then the others.
	const revision = 0x02000000
	capabilities := make([]byte, 20)
	binary.LittleEndian.PutUint32(capabilities[0:], revision|effective)
	binary.LittleEndian.PutUint32(capabilities[4:], 1<<unix.CAP_SYS_PTRACE)
	binary.LittleEndian.PutUint32(capabilities[12:], 1<<(unix.CAP_PERFMON-32)|1<<(unix.CAP_BPF-32))
	if err := unix.Setxattr(file, "security.capability", capabilities, 0); err != nil {
		t.Fatalf("set capabilities of %s: %v (set TMPDIR to a file system that has them)", file, err)
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(file, &stat); err != nil || stat.Flags&unix.ST_NOSUID != 0 {
		t.Fatalf("%s is mounted nosuid (%v): set TMPDIR to a file system that is not", file, err)
	}
	return file
}

// asNobody returns a command that runs as nobody, in a directory of its own.
func asNobody(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = programtest.PublicDir(t, 0o777)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody, Groups: []uint32{nobody}}}
	return cmd
}

// runAsNobody runs a command to its end.
func runAsNobody(t *testing.T, name string, args ...string) result {
	t.Helper()
	cmd := asNobody(t, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return result{cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()}
}

// rootsProcess starts a Go program of root, which computes. Its working directory is
// open to everybody, and lies in one that only root may enter. It holds a profile and a
// module.
func rootsProcess(t *testing.T) (pid int, cwd string) {
	t.Helper()
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	cwd = filepath.Join(private, "cwd")
	if err := os.Mkdir(cwd, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(cwd, 0o777); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"secret.folded": "secret;main 1\n",
		"list":          "secret.folded\n",
		"module.wasm":   "\x00asm\x01\x00\x00\x00",
	} {
		if err := os.WriteFile(filepath.Join(cwd, name), []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return startWorkloadAs(t, cwd, nil), cwd
}

// startWorkloadAs starts the demo's workload for somebody. It rests for most of the time, which
// leaves the processors to other tests.
func startWorkloadAs(t *testing.T, dir string, who *syscall.Credential) int {
	t.Helper()
	file, err := exec.LookPath("ccmapd") // this test binary, in a directory of root's
	if err != nil {
		t.Fatal(err)
	}
	if who != nil {
		file = programtest.Copy(t, file, "ccmapd")
	}
	cmd := exec.Command(file, demo.Command, "-d", "10m", "-rest", "25ms")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: who}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, cmd)
	if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil {
		t.Fatalf("workload says %q, %v", line, err)
	}
	return cmd.Process.Pid
}

// TestSetcap asks a ccmapd with capabilities for what the user who asks may not have.
func TestSetcap(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	needEngine(t)
	needRoot(t)
	if testing.Short() {
		t.Skip("builds ccmapd")
	}
	cgo, static := builtCcmapd(t), buildStatic(t)
	for _, c := range []struct {
		name, program string
		effective     uint32
	}{{"cgo,+ep", cgo, 1}, {"static,+p", static, 0}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			binary := setcap(t, c.program, c.effective)
			pid, cwd := rootsProcess(t)
			t.Run("samples", func(t *testing.T) { testSetcapSamples(t, binary, pid) })
			t.Run("opens", func(t *testing.T) { testSetcapOpens(t, binary, pid, cwd) })
			t.Run("rests", func(t *testing.T) { testSetcapRests(t, binary, pid) })
			t.Run("starts", func(t *testing.T) { testSetcapStarts(t, binary) })
			if c.program == static { // which flags are refused does not depend on how ccmapd was built
				t.Run("slows", func(t *testing.T) { testSetcapFloor(t, binary, pid) })
			}
		})
	}
	t.Run("setuid", func(t *testing.T) { testSetuid(t, setcap(t, static, 0)) })
}

// testSetcapSamples holds that the capabilities are there, and do what they are for.
func testSetcapSamples(t *testing.T, binary string, pid int) {
	if r := runAsNobody(t, binary, "attach", fmt.Sprint(pid), "-d", "500ms", "-o", "a.json"); r.code != exitOK ||
		!strings.Contains(r.stdout, runtime.Version()) || strings.Contains(r.stderr, "left out") {
		t.Errorf("attach to root's process exits with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	if r := runAsNobody(t, binary, "demo", "-d", "500ms"); r.code != exitOK {
		t.Errorf("demo exits with %d: %s%s", r.code, r.stdout, r.stderr)
	}
	permitted := []string{"engine perf: permitted"}
	if os.Getenv("CCMAPD_WITHOUT_BPF") != "1" {
		permitted = append(permitted, "engine bpf: permitted")
	}
	r := runAsNobody(t, binary, "version")
	for _, want := range permitted {
		if r.code != exitOK || !strings.Contains(r.stdout, want) {
			t.Errorf("version exits with %d, and lacks %q: %s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	if r := runAsNobody(t, binary, "run", "-o", "a.json", "--", binary, demo.Command, "-d", "300ms"); r.code != exitOK {
		t.Errorf("run exits with %d: %s%s", r.code, r.stdout, r.stderr)
	}
}

// testSetcapOpens names files to every command that the user may not open.
func testSetcapOpens(t *testing.T, binary string, pid int, cwd string) {
	proc := func(name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }
	secret, own := proc("cwd/secret.folded"), fmt.Sprint(startWorkloadAs(t, "/", &syscall.Credential{Uid: nobody, Gid: nobody}))
	for _, args := range [][]string{
		{"run", "--dir", proc("cwd") + ":/x", "module.wasm"},
		{"run", proc("cwd/module.wasm")},
		{"run", "-o", "a.json", "--", proc("cwd/module.wasm")},
		{"run", "-o", proc("cwd/a.json"), "module.wasm"},
		{"attach", own, "-d", "200ms", "-o", proc("cwd/a.json")},
		{"top", proc("maps")},
		{"top", proc("environ")},
		{"top", secret},
		{"contexts", secret, "main"},
		{"sites", secret},
		{"receivers", secret},
		{"points", secret},
		{"query", secret, "main"},
		{"fanin", secret},
		{"fanin", "own.folded", "--shared", secret},
		{"fanin", "store", "a.fi", secret},
		{"fanin", "store", proc("cwd/a.json"), "own.folded"},
		{"overlap", secret, "own.folded"},
		{"diff", "own.folded", secret},
		{"convert", secret, "a.json"},
		{"convert", "own.folded", proc("cwd/a.json")},
		{"convert", "--coverage", proc("cwd"), "own.folded", "a.json"},
		{"merge", "-o", "a.json", secret},
		{"merge", "-o", "a.json", "--files-from", proc("cwd/list")},
		{"merge", "-o", proc("cwd/a.json"), "own.folded"},
	} {
		cmd := asNobody(t, binary, args...)
		for name, content := range map[string]string{"module.wasm": "\x00asm\x01\x00\x00\x00", "own.folded": "own;main 1\n"} {
			if err := os.WriteFile(filepath.Join(cmd.Dir, name), []byte(content), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		out, _ := cmd.CombinedOutput()
		// An attach or run that cannot write where it was told to keeps the profile elsewhere.
		if code := cmd.ProcessState.ExitCode(); code == exitOK && args[0] != "run" || !bytes.Contains(out, []byte("permi")) {
			t.Errorf("%s: exit code %d, and no refusal: %s", strings.Join(args, " "), code, out)
		}
		if bytes.Contains(out, []byte("secret ")) || bytes.Contains(out, []byte("r-xp")) || bytes.Contains(out, []byte("PATH=")) {
			t.Errorf("%s prints what it may not read: %s", strings.Join(args, " "), out)
		}
	}
	if _, err := os.Stat(filepath.Join(cwd, "a.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file was written to a directory of root's: %v", err)
	}
}

// testSetcapRests looks at the threads of a command that samples, and of one that does
// not.
func testSetcapRests(t *testing.T, binary string, pid int) {
	sampling := asNobody(t, binary, "attach", fmt.Sprint(pid), "-o", "a.json")
	start(t, sampling)
	const three = "000000" + "c000080000" // CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE
	awaitStatus(t, sampling.Process.Pid, "CapPrm", three)
	awaitStatus(t, sampling.Process.Pid, "CapEff", "0000000000000000")

	reading := asNobody(t, binary, "top", "-")
	stdin, err := reading.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	start(t, reading)
	awaitStatus(t, reading.Process.Pid, "CapPrm", "0000000000000000")
	awaitStatus(t, reading.Process.Pid, "CapEff", "0000000000000000")
}

// awaitStatus waits until a line of /proc/PID/status is the same for all threads of a
// process.
func awaitStatus(t *testing.T, pid int, key, want string) {
	t.Helper()
	var last map[string]string
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		last = threadStatus(t, pid, key)
		if len(last) == 1 && last[want] != "" {
			return
		}
	}
	t.Errorf("%s of threads of process %d: %v, want all %s", key, pid, last, want)
}

// threadStatus returns the values of a line in the threads' status, each with the threads
// that have it.
func threadStatus(t *testing.T, pid int, key string) map[string]string {
	t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, thread := range threads {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/status", pid, thread.Name()))
		if err != nil {
			continue // it has ended
		}
		for line := range strings.Lines(string(text)) {
			if value, ok := strings.CutPrefix(line, key+":"); ok {
				values[strings.TrimSpace(value)] += thread.Name() + " "
			}
		}
	}
	return values
}

// testSetcapStarts looks at what a program has that ccmapd starts.
func testSetcapStarts(t *testing.T, binary string) {
	r := runAsNobody(t, binary, "run", "-q", "--anyway", "--", "cat", "/proc/self/status")
	for _, want := range []string{
		"CapInh:\t0000000000000000", "CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000",
		"NoNewPrivs:\t0", "Seccomp:\t0",
	} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("a program that run starts has not %q:\n%s%s", want, r.stdout, r.stderr)
		}
	}
}

// testSetcapFloor asks to sample root's process more than another user may.
func testSetcapFloor(t *testing.T, binary string, pid int) {
	own := startWorkloadAs(t, "/", &syscall.Credential{Uid: nobody, Gid: nobody})
	for _, args := range [][]string{
		{"-i", "100us"}, {"--min-interval", "500us"}, {"--max-overhead", "0"}, {"--max-overhead", "6"}, {"--max-host-overhead", "0"}, {"--hits", "10000"},
	} {
		attach := func(pid int) result {
			return runAsNobody(t, binary, append([]string{"attach", fmt.Sprint(pid), "-d", "100ms", "-o", "a.json"}, args...)...)
		}
		if r := attach(pid); r.code != exitPermission || !strings.Contains(r.stderr, args[0][:2]) || !strings.Contains(r.stderr, "root") {
			t.Errorf("attach %s to root's process exits with %d: %s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
		}
		if r := attach(own); r.code != exitOK {
			t.Errorf("attach %s to a process of one's own exits with %d: %s%s", strings.Join(args, " "), r.code, r.stdout, r.stderr)
		}
	}
}

// testSetuid runs a ccmapd that is set-user-ID or set-group-ID root.
func testSetuid(t *testing.T, binary string) {
	for _, mode := range []os.FileMode{os.ModeSetuid | 0o755, os.ModeSetgid | 0o755} {
		if err := os.Chmod(binary, mode); err != nil {
			t.Fatal(err)
		}
		if r := runAsNobody(t, binary, "version"); r.code != exitPermission || !strings.Contains(r.stderr, "setcap") {
			t.Errorf("mode %v: exit code %d: %s%s", mode, r.code, r.stdout, r.stderr)
		}
	}
}
