// Computer computes answers and checks them, in all ways that a profiler may disturb: on
// threads that come and go, with signals, in children, in C and in a plugin. Each task
// has one right answer, computed before any attachment.
//
//	computer TASKS [PLUGIN]
//	    works at TASKS, with commas between them; "all" is all, in turn on two
//	    processors. Beside "gently" each task pauses for most of the time. It says
//	    "ready". For each line of standard input it lets all tasks rest, and prints a
//	    report. After the line "rest" they rest until the next line. At the line "exec"
//	    it begins anew. It ends with its input.
//	computer TASKS [PLUGIN] for TIME
//	    says "ready", waits for a line, works for TIME, and prints the report.
//	computer answer
//	    prints one right answer, and ends.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// report is printed at rest.
type report struct {
	Answers     int64         `json:"answers"`
	Wrong       int64         `json:"wrong"`
	Signals     int64         `json:"signals"`     // arrived
	Descriptors int           `json:"descriptors"` // open
	CPU         time.Duration `json:"cpu"`         // ns, by the process's own clock
}

// computer works at tasks.
type computer struct {
	rest           sync.RWMutex // held for reading by a task at work
	answers, wrong atomic.Int64
	signals        atomic.Int64
}

func main() {
	args := os.Args[1:]
	if len(args) == 1 && args[0] == "answer" {
		fmt.Println(children{}.answer())
		return
	}
	var long time.Duration
	if n := len(args); n > 2 && args[n-2] == "for" {
		var err error
		if long, err = time.ParseDuration(args[n-1]); err != nil {
			fail(err)
		}
		args = args[:n-2]
	}
	tasks, err := choose(args)
	if err != nil {
		fail(err)
	}
	var c computer
	if slices.ContainsFunc(tasks, func(t task) bool { return t.name == "signals" }) {
		c.receive()
	}
	c.work(tasks, long)
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "computer:", err)
	os.Exit(2)
}

// receive counts the signals of the task, and lets the runtime profile this process,
// which sends SIGPROF to each of its threads.
func (c *computer) receive() {
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1)
	go func() {
		for range got {
			c.signals.Add(1)
		}
	}()
	if err := pprof.StartCPUProfile(io.Discard); err != nil {
		fail(err)
	}
}

// work works at all tasks at once, until standard input ends or for a time.
func (c *computer) work(tasks []task, long time.Duration) {
	want := make([]uint64, len(tasks))
	for i, t := range tasks {
		want[i] = t.run()
	}
	in := bufio.NewReader(os.Stdin)
	fmt.Println("ready")
	if long > 0 {
		in.ReadString('\n')
	}
	for i, t := range tasks {
		go c.repeat(t, want[i])
	}
	if long > 0 {
		time.Sleep(long)
		c.tell(func() {})
		return
	}
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch line {
		case "rest\n":
			c.tell(func() { in.ReadString('\n') })
		case "exec\n":
			fail(syscall.Exec("/proc/self/exe", os.Args, os.Environ()))
		default:
			c.tell(func() {})
		}
	}
}

// repeat works at a task for ever.
func (c *computer) repeat(t task, want uint64) {
	for {
		c.rest.RLock()
		got := t.run()
		c.answers.Add(1)
		if got != want {
			c.wrong.Add(1)
		}
		c.rest.RUnlock()
		if t.pause > 0 {
			time.Sleep(t.pause)
		} else {
			runtime.Gosched()
		}
	}
}

// tell prints a report while all tasks rest. They rest until wait returns.
func (c *computer) tell(wait func()) {
	c.rest.Lock()
	defer c.rest.Unlock()
	open, _ := os.ReadDir("/proc/self/fd")
	json.NewEncoder(os.Stdout).Encode(report{c.answers.Load(), c.wrong.Load(), c.signals.Load(), len(open), clock()})
	wait()
}

// clock reads the CPU clock of the process.
func clock() time.Duration {
	const process = 2 // CLOCK_PROCESS_CPUTIME_ID
	var ts syscall.Timespec
	syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, process, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// choose returns the tasks that the arguments name.
func choose(args []string) ([]task, error) {
	if len(args) == 0 {
		return nil, fmt.Errorf("want tasks")
	}
	library := ""
	if len(args) > 1 {
		library = args[1]
	}
	all, err := tasks(library)
	if err != nil {
		return nil, err
	}
	names := strings.Split(args[0], ",")
	if !slices.Contains(names, "all") {
		all = append(all, task{name: "eases", run: calls, pause: longPause})
		all = slices.DeleteFunc(all, func(t task) bool { return !slices.Contains(names, t.name) })
	}
	if slices.Contains(names, "gently") {
		for i := range all {
			all[i].pause = longPause
		}
	}
	return all, nil
}

// longPause is a multiple of the time that a task takes.
const longPause = 20 * time.Millisecond
