package perf

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// nobody is a user with no rights.
const nobody = 65534

// TestAsNobody runs tests of this binary as a user who may not sample the
// kernel, nor processes of others.
func TestAsNobody(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	if testing.Short() {
		t.Skip("runs other tests a second time")
	}
	build(t, "receivers")
	self := filepath.Join(filepath.Dir(build(t, "workload")), "perf.test")
	copyExecutable(t, os.Args[0], self)
	cmd := exec.Command(self, "-test.v", "-test.run=^(TestNobody|TestActivationsCounted|TestHitsMatchSamples|TestTimeAddsUp)$")
	cmd.Env = append(os.Environ(), builtEnv+"="+filepath.Dir(self), "HOME=/nonexistent")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

func copyExecutable(t *testing.T, from, to string) {
	t.Helper()
	in, err1 := os.Open(from)
	out, err2 := os.OpenFile(to, os.O_WRONLY|os.O_CREATE, 0o755)
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	_, err := io.Copy(out, in)
	if err := errors.Join(err, out.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestNobody is run by TestAsNobody.
func TestNobody(t *testing.T) {
	if os.Getuid() != nobody {
		t.Skip("run by TestAsNobody")
	}
	sink := sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}
	_, err := Open(context.Background(), Options{PID: os.Getppid(), Sink: sink})
	if !errors.Is(err, sampler.ErrPermission) || !strings.Contains(err.Error(), "CAP_") {
		t.Errorf("root's process: %v", err)
	}
	paranoid, err := perfevent.Sysctl("perf_event_paranoid")
	if err != nil {
		t.Fatal(err)
	}
	_, s := sampleWhole(t, Options{Interval: time.Millisecond}, build(t, "workload"), "busy", "300")
	st, kernel := s.Stats(), s.Info().NoKernelTime == ""
	if kernel != (paranoid <= 1) {
		t.Errorf("with perf_event_paranoid=%d: %+v", paranoid, st)
	}
	if !kernel && st.Counts[sampler.InKernel] > 0 {
		t.Errorf("%d kernel samples where they are forbidden", st.Counts[sampler.InKernel])
	}
}

// TestStartStopped attaches to a program that is stopped at its first
// instruction, as ccmapd run does.
func TestStartStopped(t *testing.T) {
	t.Parallel()
	runtime.LockOSThread() // the tracer is a thread
	defer runtime.UnlockOSThread()
	cmd := exec.Command(build(t, "workload", "-buildmode=pie", "-ldflags=-s -w"), "calls", "20", "10")
	cmd.Stdin = strings.NewReader("\n")
	cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(cmd.Process.Pid, &status, 0, nil); err != nil {
		t.Fatal(err)
	}
	s, sink := attach(t, cmd.Process.Pid, Options{Interval: time.Millisecond})
	if err := syscall.PtraceDetach(cmd.Process.Pid); err != nil {
		t.Fatal(err)
	}
	samples, _ := collect(t, s, sink)
	if target := s.Info().Target; target.BuildID == "" || target.Runtime != runtime.Version() {
		t.Errorf("target: %+v", target)
	}
	named := 0
	for _, smp := range samples {
		if smp.has("main.work") && smp.has("runtime.main") {
			named++
		}
	}
	if named < len(samples)/2 || named == 0 {
		t.Errorf("%d of %d samples have names", named, len(samples))
	}
}
