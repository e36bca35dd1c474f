package testrun

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// MarkEnv marks every process of a run of a test binary: children inherit it, whoever their parent
// is, and whichever session or user they are in. A process that gets an environment of its own needs the
// variable in it.
const MarkEnv = "CCMAPD_TEST_RUN"

// guardEnv makes a test binary the guard of the run with that mark.
const guardEnv = "CCMAPD_TEST_GUARD"

// Guarded is a run of a test binary. Its guard is a process that watches a pipe. The kernel closes
// the other end when the test binary ends, however it ends. The guard then kills all that has the mark.
//
// PR_SET_PDEATHSIG is no substitute: it ends a child with the thread that has started it, programs
// with capabilities drop it, and it does not reach children of children (prctl(2)).
type Guarded struct{ m *testing.M }

// Guard returns the guarded run of a package's tests, for its TestMain, before that does anything
// else:
//
//	func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }
//
// It does not return in a process that is the guard.
func Guard(m *testing.M) Guarded {
	if mark := os.Getenv(guardEnv); mark != "" {
		os.Exit(guard(mark))
	}
	return Guarded{m}
}

// Run runs the tests and returns the exit code. It fails if tests have left processes behind, which
// have some seconds to end by themselves.
func (r Guarded) Run() int {
	if os.Getenv(MarkEnv) != "" {
		return r.m.Run() // within another run, and guarded by its guard
	}
	mark := rand.Text()
	end, err := startGuard(mark)
	if err == nil {
		err = os.Setenv(MarkEnv, mark)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "guard the run of tests:", err)
		return 1
	}
	code := r.m.Run()
	if left := end(); left != "" {
		fmt.Printf("FAIL: tests have left processes behind, which were killed:\n%s", left)
		code = max(code, 1)
	}
	return code
}

// startGuard starts the guard, in a session of its own: Ctrl-C is not for it. The function it
// returns ends the run and returns lines for the processes that were left.
func startGuard(mark string) (func() string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), guardEnv+"="+mark)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	watched, err1 := cmd.StdinPipe()
	left, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, err
	}
	return func() string {
		watched.Write([]byte(inGoodOrder))
		watched.Close()
		text, _ := io.ReadAll(left)
		cmd.Wait()
		return string(text)
	}, nil
}

// inGoodOrder is what a test binary tells its guard at the end of its tests.
const inGoodOrder = "ended"

// guard waits for the end of a test binary, and then kills what is left of its run.
func guard(mark string) int {
	signal.Ignore(unix.SIGPIPE) // nobody may read what it says
	said, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 1
	}
	if string(said) == inGoodOrder {
		awaitEnds(mark)
		if len(marked(mark)) == 0 {
			return 0
		}
	}
	killAll(mark)
	return 0
}

// killAll kills the processes of a run until none has been seen for a second. One look is not enough:
// they start others meanwhile, and a process shows no environment for a moment in execve(2).
func killAll(mark string) {
	const (
		between = 50 * time.Millisecond
		enough  = 20
		most    = 200 // looks: a process of another user stays
	)
	for looks, without := 0, 0; looks < most && without < enough; looks++ {
		left := marked(mark)
		for _, p := range left {
			unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0)
		}
		for _, p := range left {
			p.awaitEnd(time.Second)
			fmt.Printf("%d %q\n", p.pid, p.line)
		}
		if without++; len(left) > 0 {
			without = 0
		}
		time.Sleep(between)
	}
}

// awaitEnds gives processes time to end by themselves: some have just been killed, or have just lost
// the process that they worked for.
func awaitEnds(mark string) {
	const most = 20 * time.Second // on a machine on which many programs are busy
	until := time.Now().Add(most)
	for _, p := range marked(mark) {
		p.awaitEnd(time.Until(until))
	}
}

// relative is a process of a run.
type relative struct {
	pid, pidfd int
	line       string // its command line
}

func (r relative) awaitEnd(most time.Duration) {
	defer unix.Close(r.pidfd)
	for until := time.Now().Add(most); time.Until(until) > 0; {
		_, err := unix.Poll([]unix.PollFd{{Fd: int32(r.pidfd), Events: unix.POLLIN}}, int(time.Until(until).Milliseconds())+1)
		if !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// marked returns the processes that have the mark, pinned. Zombies have no environment any more.
func marked(mark string) (found []relative) {
	own, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range own {
		pid, _ := strconv.Atoi(filepath.Base(dir))
		pidfd, err := unix.PidfdOpen(pid, 0)
		if err != nil {
			continue
		}
		environ, _ := os.ReadFile(filepath.Join(dir, "environ"))
		if !hasMark(environ, mark) {
			unix.Close(pidfd)
			continue
		}
		line, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		found = append(found, relative{pid, pidfd, strings.ReplaceAll(string(line), "\x00", " ")})
	}
	return found
}

func hasMark(environ []byte, mark string) bool {
	for variable := range bytes.SplitSeq(environ, []byte{0}) {
		if string(variable) == MarkEnv+"="+mark {
			return true
		}
	}
	return false
}
