package perfevent

import (
	"bufio"
	"errors"
	"fmt"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"os"
	"os/exec"
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// counted is a function whose executions are counted.
//
//go:noinline
func counted() {}

func ownThreads() ([]uint32, error) { return threadsOf(os.Getpid()) }

// threadsOf lists the threads of a process.
func threadsOf(pid int) (tids []uint32, err error) {
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, e := range entries {
		tid, _ := strconv.ParseUint(e.Name(), 10, 32)
		tids = append(tids, uint32(tid))
	}
	return tids, err
}

// TestCounter counts calls on threads that were there, and on those that begin later and end.
func TestCounter(t *testing.T) {
	testrun.Breakpoints(t, Silent())
	c, err := OpenCounter(ownThreads, uint64(reflect.ValueOf(counted).Pointer()))
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const threads, calls = 12, 250
	var all sync.WaitGroup
	ready := make(chan bool)
	for range threads {
		all.Go(func() {
			runtime.LockOSThread() // the thread ends with the goroutine
			<-ready
			for range calls {
				counted()
			}
		})
	}
	close(ready)
	all.Wait()
	// Go preempts a goroutine now and then, and few times in such a run just there.
	if n, err := c.Count(); n < threads*calls || n > threads*(calls+1) || err != nil {
		t.Errorf("counted %d of %d calls, error %v", n, threads*calls, err)
	}
}

// livesEnv makes of the test binary a program that counts, executes itself, and counts again.
const livesEnv = "CCMAPD_TEST_LIVES"

// callsOfLife is how often each of its programs calls counted.
const callsOfLife = 250

// liveOn says where counted is, awaits a line, and calls it.
func liveOn(life string) {
	if life == "first" {
		fmt.Println(reflect.ValueOf(counted).Pointer())
		bufio.NewReaderSize(os.Stdin, 1).ReadString('\n')
	}
	for range callsOfLife {
		counted()
	}
	if life == "first" {
		os.Setenv(livesEnv, "second")
		fmt.Fprintln(os.Stderr, syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
		os.Exit(1)
	}
	fmt.Println("done")
	bufio.NewReader(os.Stdin).ReadString('\n')
	os.Exit(0)
}

// TestCounterEndsAtExec: the next program of a process has no breakpoint, and is not counted.
func TestCounterEndsAtExec(t *testing.T) {
	testrun.Breakpoints(t, Silent())
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), livesEnv+"=first")
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	lines.Scan()
	pc, err := strconv.ParseUint(lines.Text(), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	c, err := OpenCounter(func() ([]uint32, error) { return threadsOf(cmd.Process.Pid) }, pc)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.ENOSPC) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in.Write([]byte("\n"))
	if lines.Scan(); lines.Text() != "done" {
		t.Errorf("the program says %q", lines.Text())
	}
	if n, err := c.Count(); n < callsOfLife || n > callsOfLife+1 || err != nil {
		t.Errorf("counted %d calls, error %v, want %d: those before the exec", n, err, callsOfLife)
	}
	in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestCounterNeedsAllThreads(t *testing.T) {
	testrun.Breakpoints(t, Silent())
	last := uint32(1 << 30)
	_, err := OpenCounter(func() ([]uint32, error) { last++; return []uint32{last}, nil }, 8)
	if !errors.Is(err, ErrThreads) {
		t.Errorf("error %v where a thread begins each time, want %v", err, ErrThreads)
	}
}
