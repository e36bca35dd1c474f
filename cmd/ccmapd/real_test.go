package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// Programs that nobody here wrote, from the module proxy. testdata/README.md
// says why these.
const fortio = "fortio.org/fortio@v1.63.0"

// install builds a command of a module and returns its path.
func install(t *testing.T, command string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("go", append(append([]string{"install"}, flags...), command)...)
	cmd.Dir = dir // outside any module
	cmd.Env = append(os.Environ(), "GOBIN="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("install %s: %v\n%s", command, err, out)
	}
	name, _, _ := strings.Cut(filepath.Base(command), "@")
	return filepath.Join(dir, name)
}

var listening = regexp.MustCompile(`http-echo server listening on tcp ([0-9.:]+)`)

// serveFortio starts its HTTP server under load and returns the process and the
// address. The server's environment has some more variables.
func serveFortio(t *testing.T, binary string, variables ...string) (server *exec.Cmd, address string) {
	t.Helper()
	server = exec.Command(binary, "server", "-pprof", "-http-port", "127.0.0.1:0",
		"-grpc-port", "disabled", "-tcp-port", "disabled", "-udp-port", "disabled", "-redirect-port", "disabled")
	server.Env = append(os.Environ(), variables...)
	log, err := server.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	start(t, server)
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			address = m[1]
			break
		}
	}
	if address == "" {
		t.Fatal("fortio does not listen")
	}
	go io.Copy(io.Discard, log)
	start(t, exec.Command(binary, "load", "-quiet", "-qps", "0", "-c", "4", "-t", "0", "http://"+address+"/echo?size=500"))
	return server, address
}

// start starts a command that is killed when the test ends.
func start(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	killAtEnd(t, cmd)
}

// killAtEnd kills a command when the test ends, or after some minutes: a test that waits for what the command does not
// print then fails with what it has printed, and does not use up the time of all tests.
func killAtEnd(t *testing.T, cmd *exec.Cmd) {
	hung := time.AfterFunc(5*time.Minute, func() { cmd.Process.Kill() })
	t.Cleanup(func() {
		hung.Stop()
		cmd.Process.Kill()
		cmd.Wait()
	})
}

// TestRealServer profiles a server under load twice over the same window, from
// outside and by its own runtime/pprof, and compares the two.
func TestRealServer(t *testing.T) {
	testrun.Full(t, testrun.Package)
	needEngine(t)
	if testing.Short() {
		t.Skip("builds and loads a server for seconds")
	}
	server, address := serveFortio(t, install(t, fortio))
	file := filepath.Join(t.TempDir(), "outside.json")
	var outside, own *ccmap.Snapshot
	for seconds := 4; ; seconds *= 2 { // on a busy machine a server has few samples a second
		a := attachTo(t, fmt.Sprint(server.Process.Pid), "--tune=false", "-d", fmt.Sprintf("%ds", seconds+1), "-o", file)
		own = fetchProfile(t, address, seconds)
		outside = a.end(t, file)
		if own.Total().Samples >= 200 || seconds > 60 {
			break
		}
	}

	r, err := compare.Compare(outside, own, compare.Options{Absorb: unseenByRuntime})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d samples from outside, %d by runtime/pprof; methods %.1f (floor %.1f), edges %.1f (%.1f), contexts %.1f (%.1f), Pearson %.3f",
		r.A.Samples, r.B.Samples, r.Methods.Percent, r.Methods.Floor, r.Edges.Percent, r.Edges.Floor,
		r.Contexts.Percent, r.Contexts.Floor, r.Pearson)
	// The floor is that of halves of the smaller profile; whole profiles that
	// differ by noise alone agree better. The margin is for what differs by
	// design: runtime/pprof drops what it cannot unwind.
	const margin = 8 // points
	if r.Contexts.Percent < r.Contexts.Floor-margin || r.Methods.Percent < r.Methods.Floor-margin {
		t.Errorf("the profile from outside agrees with runtime/pprof less than noise explains")
	}
	// Around 0.98 on a quiet machine; a loaded one leaves some hundred samples.
	if r.Pearson < 0.8 {
		t.Errorf("correlation of methods %.3f, want 0.8", r.Pearson)
	}
	if share := shareOf(outside, "net/http.(*conn).serve"); share < 0.5 {
		t.Errorf("%.0f %% of the time is spent in net/http.(*conn).serve, want most of it", 100*share)
	}
	if lost := outside.Meta().Loss.Samples(); lost != 0 {
		t.Errorf("%d samples lost", lost)
	}
}

// unseenByRuntime says what runtime/pprof counts for the caller: it stops at
// the border to the kernel and to the vDSO.
func unseenByRuntime(m ccmap.Method) bool {
	return m.Name == ccmap.KernelName || strings.HasSuffix(m.Name, "clock_gettime") || strings.HasPrefix(m.Name, "[vdso]")
}

// fetchProfile asks a server for its own CPU profile.
func fetchProfile(t *testing.T, address string, seconds int) *ccmap.Snapshot {
	t.Helper()
	answer, err := http.Get(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", address, seconds))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	m, format, err := export.Read(answer.Body, export.ReadOptions{})
	if err != nil || format != export.Pprof {
		t.Fatalf("read runtime/pprof profile: %v, format %v", err, format)
	}
	return m.Snapshot()
}

// shareOf returns the part of all time that a method and what it calls took.
func shareOf(s *ccmap.Snapshot, name string) float64 {
	id, _ := s.Names().Lookup(name, "")
	m, _ := s.Method(id)
	return float64(m.Cumulative().Time) / float64(s.Total().Time)
}

// withoutRuntime are packages of the standard library that do not import the runtime.
var withoutRuntime = []string{"math", "unicode", "unicode/utf16", "container/list", "container/ring", "encoding", "cmp", "internal/strconv"}

// TestCompilerUnderRun compiles some packages with every call of the compiler and the assembler
// under ccmapd run, and merges what they did. The packages need no runtime, which takes long.
func TestCompilerUnderRun(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	needEngine(t)
	if testing.Short() {
		t.Skip("compiles packages")
	}
	dir := t.TempDir()
	ccmapd, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	tool := fmt.Sprintf("%s run -q -i 2ms --tune=false --max-host-overhead=0 -o %s --", ccmapd, filepath.Join(dir, "%p.pb.gz"))
	build := exec.Command("go", append([]string{"build", "-a", "-toolexec", tool}, withoutRuntime...)...)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build under ccmapd run: %v\n%s", err, out)
	}
	profiles, err := filepath.Glob(filepath.Join(dir, "*.pb.gz"))
	if err != nil || len(profiles) < 20 {
		t.Fatalf("%d profiles, %v; want one a call of the compiler", len(profiles), err)
	}
	merged := filepath.Join(dir, "merged.json")
	if code, _, errs := runWith(append([]string{"merge", "-o", merged}, profiles...), nil); code != exitOK {
		t.Fatalf("merge exits with %d: %s", code, errs)
	}
	code, out, errs := runWith([]string{"top", "--json", "--sort", "cum", "-n", "50", merged}, nil)
	if code != exitOK {
		t.Fatalf("top exits with %d: %s", code, errs)
	}
	var top struct {
		Methods []struct{ Method string }
	}
	if err := json.Unmarshal([]byte(out), &top); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"cmd/compile/internal/gc.Main", "cmd/compile/internal/ssa.Compile"} {
		if !slices.ContainsFunc(top.Methods, func(m struct{ Method string }) bool { return m.Method == want }) {
			t.Errorf("%s is not among the hottest methods of the compiler:\n%s", want, out)
		}
	}
}
