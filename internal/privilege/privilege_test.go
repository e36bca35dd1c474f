package privilege

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"golang.org/x/sys/unix"
)

// programName is the environment variable that makes this test binary another program,
// whose process it changes for good.
const programName = "CCMAPD_PRIVILEGE_PROGRAM"

var programs = map[string]func() error{"hammer": hammer, "confined": confined, "wakes": wakes, "drops": drops}

func TestMain(m *testing.M) {
	program := programs[os.Getenv(programName)]
	if program == nil {
		os.Exit(testrun.Guard(m).Run())
	}
	if err := program(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// hammer begins sections while threads come and go. No thread outside of a section may
// have a capability in effect, and every thread inside of one has both.
func hammer() error {
	p, err := Start()
	if err != nil {
		return err
	}
	if !p.Granted() {
		return fmt.Errorf("no capability was granted: %+v", p.held)
	}
	var all sync.WaitGroup
	errs := make(chan error, 64)
	for range 8 {
		all.Go(func() { errs <- repeat(inSection) })
		all.Go(func() { errs <- repeat(onNewThread) })
	}
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	if err := p.Keep(Files); err != nil {
		return err
	}
	return wantEffective(0)
}

func repeat(step func() error) error {
	for range 500 {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func inSection() error {
	defer Raise().Lower()
	runtime.Gosched() // to make threads for others meanwhile
	return wantEffective(neededFor(Targets))
}

// onNewThread uses up a thread: a thread ends with its locked goroutine.
func onNewThread() error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		result <- wantEffective(0)
	}()
	return <-result
}

func wantEffective(want set) error {
	h, err := ofThread()
	if err == nil && h.effective != want {
		err = fmt.Errorf("thread %d has %v in effect, want %v", unix.Gettid(), h.effective, want)
	}
	return err
}

// TestSections runs hammer as a user whose only capabilities are this file's.
func TestSections(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can give a file capabilities")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := programtest.Copy(t, self, "hammer")
	if err := unix.Setxattr(file, "security.capability", fileCapabilities(), 0); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	cmd := exec.Command(file)
	cmd.Env = append(os.Environ(), programName+"=hammer")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// fileCapabilities returns the capabilities for targets, in effect at the start, and one
// that ccmapd does not use (struct vfs_cap_data of linux/capability.h, revision 2).
// drops starts, and drops all rights.
func drops() error {
	p, err := Start()
	if err != nil {
		return err
	}
	return errors.Join(p.Keep(Files), p.NoNewPrivileges())
}

// TestNoRoomForSignals: where no signal can be queued, the process makes room if it may, and says so if it may not,
// instead of waiting for ever.
func TestNoRoomForSignals(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		testrun.Lacks(t, "only root can become other users")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := programtest.Copy(t, self, "drops")
	ofRoot := ""
	if !Has(unix.CAP_SYS_RESOURCE) { // a container's root
		ofRoot = ErrSignals.Error()
	}
	for user, c := range map[uint32]struct{ limit, want string }{
		0:     {"ulimit -i 0", ofRoot},
		65534: {"ulimit -i 0", ErrSignals.Error()},
		65533: {"ulimit -S -i 0", ""},
	} {
		cmd := exec.Command("bash", "-c", c.limit+" && exec "+file)
		cmd.Env = append(os.Environ(), programName+"=drops")
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
		out, err := cmd.CombinedOutput()
		if (err != nil) != (c.want != "") || strings.TrimSpace(string(out)) != c.want {
			t.Errorf("user %d: %v: %s", user, err, out)
		}
	}
}

func fileCapabilities() []byte {
	const revision, effective = 0x02000000, 1
	s := neededFor(Targets) | 1<<unix.CAP_SYSLOG
	b := make([]byte, 20)
	binary.LittleEndian.PutUint32(b[0:], revision|effective)
	binary.LittleEndian.PutUint32(b[4:], uint32(s))
	binary.LittleEndian.PutUint32(b[12:], uint32(s>>32))
	return b
}

// wakes holds, as root, that CAP_KILL is in effect in sections that wake, and nowhere else.
func wakes() error {
	p, err := Start()
	if err != nil {
		return err
	}
	const kill = set(1 << unix.CAP_KILL)
	holds := func(where string, want bool) error {
		h, err := ofThread()
		if err == nil && (h.permitted&kill == 0 || (h.effective&kill != 0) != want) {
			err = fmt.Errorf("%s: %v permitted, %v in effect", where, h.permitted, h.effective)
		}
		return err
	}
	if err := errors.Join(p.Keep(Targets|Files|Signals|Waking), holds("the program may be signalled", true)); err != nil {
		return err
	}
	if err := errors.Join(p.Keep(Targets|Files|Waking), holds("outside", false)); err != nil {
		return err
	}
	target := Raise()
	err = holds("on a target", false)
	target.Lower()
	waking := RaiseToWake()
	err = errors.Join(err, holds("waking", true))
	waking.Lower()
	return errors.Join(err, holds("afterwards", false))
}

// TestWaking runs wakes, which changes its process for good.
func TestWaking(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("only root has CAP_KILL")
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), programName+"=wakes")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

// TestNothingToRaise checks that a process without such capabilities pays nothing.
func TestNothingToRaise(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { Raise().Lower(); RaiseToWake().Lower() }); n != 0 {
		t.Errorf("a section allocates %v times", n)
	}
	var p *Process
	if p.Granted() || p.Keep(0) != nil || p.NoNewPrivileges() != nil || p.Confine() != nil {
		t.Error("a nil Process changes something")
	}
}

func TestString(t *testing.T) {
	t.Parallel()
	for s, want := range map[set]string{0: "", neededFor(Targets): "cap_sys_ptrace,cap_perfmon,cap_bpf", 1 << 63: "63"} {
		if got := s.String(); got != want {
			t.Errorf("%#x is %q, want %q", uint64(s), got, want)
		}
	}
}
