package perf

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/sampler/internal/enginetest"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

// nobody is a user with no rights.
const nobody = 65534

// TestAsNobody runs tests of this binary as a user who may not sample the
// kernel, nor processes of others.
func TestAsNobody(t *testing.T) {
	testrun.Full(t, testrun.Minutes)
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can become another user")
	}
	if testing.Short() {
		t.Skip("runs other tests a second time")
	}
	enginetest.Build(t, "receivers")
	self := filepath.Join(filepath.Dir(enginetest.Build(t, "workload")), "perf.test")
	content, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	programtest.Write(t, self, content)
	cmd := exec.Command(self, "-test.v", "-test.run=^(TestNobody|TestLockedMemoryAsNobody|TestManyTargetsAsNobody|TestActivationsCounted|TestHitsMatchSamples|TestTimeAddsUp)$")
	cmd.Env = append(os.Environ(), enginetest.BuiltEnv+"="+filepath.Dir(self), "HOME=/nonexistent")
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("as nobody: %v\n%s", err, out)
	}
	t.Logf("%s", out)
}

// TestLockedMemoryAsNobody is run by TestAsNobody: rings that take more memory than the user may lock are a
// refusal, so that another engine is tried, and it names the cure.
func TestLockedMemoryAsNobody(t *testing.T) {
	if os.Getuid() != nobody {
		t.Skip("run by TestAsNobody")
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_MEMLOCK, &before); err != nil {
		t.Fatal(err)
	}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unix.Rlimit{Max: before.Max}); err != nil {
		t.Fatal(err)
	}
	defer unix.Setrlimit(unix.RLIMIT_MEMLOCK, &before)
	const most = 1 << 10 // rings of 32 KiB at least
	for range most {
		ring, err := perfevent.OpenRing(0, 1<<20, 1)
		if err == nil {
			defer ring.Close()
			continue
		}
		if err := explain(os.Getpid(), err); !errors.Is(err, sampler.ErrPermission) || !strings.Contains(err.Error(), "CAP_IPC_LOCK") {
			t.Errorf("no more rings: %v", err)
		}
		return
	}
	t.Errorf("%d rings are permitted", most)
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
	_, s := sampleWhole(t, Options{Interval: time.Millisecond}, enginetest.Build(t, "workload"), "busy", "300")
	st, kernel := s.Stats(), s.Info().NoKernelTime == ""
	if kernel != (paranoid <= 1) {
		t.Errorf("with perf_event_paranoid=%d: %+v", paranoid, st)
	}
	if !kernel && st.Counts[sampler.InKernel] > 0 {
		t.Errorf("%d kernel samples where they are forbidden", st.Counts[sampler.InKernel])
	}
}
