package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/scripts/campaign"
)

// workVariable makes this program a target. Its value is the name of the work.
const workVariable = "CCMAPD_ATTACHBENCH_WORK"

// target is a workload that runs: one process, or several of the same.
type target struct {
	workload
	processes []*process
	cancel    func()
}

// process answers each line with one line:
//
//	ops                    → operations since it began, its CPU time in ns
//	begin                  → "done", once it profiles itself
//	end                    → "done", once it does not
//	profile FILE DURATION  → "done", once its own CPU profile of that time is in FILE
type process struct {
	campaign.Process
	in  io.WriteCloser
	out *bufio.Reader
}

// start starts a workload and waits until it works.
func start(ctx context.Context, w workload) (*target, error) {
	ctx, cancel := context.WithCancel(ctx)
	t := &target{workload: w, cancel: cancel}
	for range max(w.copies, 1) {
		p, err := startProcess(w)
		if err != nil {
			t.stop()
			return nil, err
		}
		t.processes = append(t.processes, p)
		address, err := p.ask("address")
		if err != nil {
			t.stop()
			return nil, err
		}
		if address != "" {
			campaign.Load(ctx, serverConnections, "http://"+address+"/")
		}
	}
	time.Sleep(300 * time.Millisecond) // it warms up
	return t, nil
}

func startProcess(w workload) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), workVariable+"="+w.name, "GODEBUG=asyncpreemptoff=1")
	cmd.Stderr = os.Stderr
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		return nil, fmt.Errorf("start %s: %w", w.name, err)
	}
	return &process{Process: campaign.Process{Cmd: cmd}, in: in, out: bufio.NewReader(out)}, nil
}

func (t *target) stop() {
	t.cancel()
	for _, p := range t.processes {
		p.in.Close()
		p.Cmd.Wait() // it ends when its input does; its exit code does not matter
	}
}

func (p *process) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		return "", fmt.Errorf("ask target: %w", err)
	}
	answer, err := p.out.ReadString('\n')
	answer = strings.TrimSpace(answer)
	if strings.HasPrefix(answer, "error:") {
		err = errors.New(answer)
	}
	return answer, err
}

// tell asks all processes.
func (t *target) tell(line string) error {
	for _, p := range t.processes {
		if _, err := p.ask(line); err != nil {
			return err
		}
	}
	return nil
}

func (t *target) pids() (pids []string) {
	for _, p := range t.processes {
		pids = append(pids, strconv.Itoa(p.PID()))
	}
	return pids
}

// reading has the operations of all processes, and the CPU time in ns that these took.
type reading struct{ ops, cpu int64 }

func (t *target) read() (sum reading, err error) {
	for _, p := range t.processes {
		answer, err := p.ask("ops")
		if err != nil {
			return sum, err
		}
		var r reading
		if _, err := fmt.Sscan(answer, &r.ops, &r.cpu); err != nil {
			return sum, err
		}
		sum = reading{sum.ops + r.ops, sum.cpu + r.cpu}
	}
	return sum, nil
}

// cost returns the CPU time of an operation in ns, over a window. If the target does
// nothing in the window, the window is longer.
func (t *target) cost(window time.Duration) (float64, error) {
	const windows = 100
	before, err := t.read()
	for range windows {
		if err != nil {
			return 0, err
		}
		time.Sleep(window)
		var after reading
		if after, err = t.read(); after.ops > before.ops {
			return float64(after.cpu-before.cpu) / float64(after.ops-before.ops), err
		}
	}
	return 0, errors.New("the target does nothing")
}

// cpu returns the CPU time of all processes.
func (t *target) cpu() (sum time.Duration) {
	for _, p := range t.processes {
		used, err := p.CPU()
		if err != nil {
			continue // it has ended, and the next question to it says so
		}
		sum += used
	}
	return sum
}

func (t *target) switches() (sum int) {
	for _, p := range t.processes {
		sum += p.Switches()
	}
	return sum
}

// ops counts the target's operations, on its side.
var ops atomic.Int64

// runTarget is the target's side: it works, and answers until its input ends.
func runTarget(name string, in io.Reader, out io.Writer) {
	w := find(name)
	if w.pinned && os.Getenv("CCMAPD_PINNED") == "" {
		pin()
		os.Setenv("CCMAPD_PINNED", "yes")
		fail(syscall.Exec("/proc/self/exe", os.Args, os.Environ())) // all its threads stay on that CPU
	}
	address := w.work()
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer, err := reply(lines.Text(), address)
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Fprintln(out, answer)
	}
}

func reply(line, address string) (string, error) {
	words := strings.Fields(line)
	switch {
	case line == "address":
		return address, nil
	case line == "ops":
		done := ops.Load()
		var cpu unix.Timespec
		err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &cpu)
		return fmt.Sprint(done, cpu.Nano()), err
	case line == "begin":
		return "done", pprof.StartCPUProfile(io.Discard)
	case line == "end":
		pprof.StopCPUProfile()
		return "done", nil
	case len(words) == 3 && words[0] == "profile":
		return "done", profileSelf(words[1], words[2])
	}
	return "", errors.New("unknown request")
}

func profileSelf(path, length string) error {
	d, err := time.ParseDuration(length)
	if err != nil {
		return err
	}
	var profile bytes.Buffer
	if err := pprof.StartCPUProfile(&profile); err != nil {
		return err
	}
	time.Sleep(d)
	pprof.StopCPUProfile()
	return os.WriteFile(path, profile.Bytes(), 0o644)
}

// fail ends a target that cannot do its work.
func fail(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "attachbench: target:", err)
		os.Exit(1)
	}
}

// pin keeps the calling thread on the last permitted CPU.
func pin() {
	var allowed, one unix.CPUSet
	fail(unix.SchedGetaffinity(0, &allowed))
	last := 0
	for cpu := range 1024 {
		if allowed.IsSet(cpu) {
			last = cpu
		}
	}
	one.Set(last)
	runtime.LockOSThread()
	fail(unix.SchedSetaffinity(0, &one))
}

// pingPong lets two threads on one CPU hand a byte to each other. The system calls are
// raw: the Go runtime would take part in each of the others. An operation is a switch.
func pingPong() string {
	debug.SetGCPercent(-1) // a collection would wait for the threads
	runtime.GOMAXPROCS(4)  // two of them are the threads'
	var there, back [2]int
	fail(errors.Join(unix.Pipe2(there[:], 0), unix.Pipe2(back[:], 0)))
	hand := func(from, to int) {
		pin()
		var b [1]byte
		for {
			raw(unix.SYS_READ, from, &b)
			ops.Add(1)
			raw(unix.SYS_WRITE, to, &b)
		}
	}
	go hand(there[0], back[1])
	go hand(back[0], there[1])
	var b [1]byte
	raw(unix.SYS_WRITE, there[1], &b)
	return ""
}

func raw(call uintptr, file int, b *[1]byte) {
	unix.RawSyscall(call, uintptr(file), uintptr(unsafe.Pointer(b)), 1)
}

// server answers requests on a network; an operation is a request.
func server() string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	fail(err)
	go func() {
		fail(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			json.NewEncoder(w).Encode(request(int(ops.Add(1)))) // an error is the client's
		})))
	}()
	return listener.Addr().String()
}

// busy does requests on one goroutine.
func busy() string {
	runtime.GOMAXPROCS(1)
	go repeat(func() { request(int(ops.Load())) })
	return ""
}

// hashing does the same work in each operation: it hashes a block.
func hashing() string {
	runtime.GOMAXPROCS(1)
	block := make([]byte, 4096)
	go repeat(func() { sha256.Sum256(block) })
	return ""
}

func repeat(work func()) {
	for {
		work()
		ops.Add(1)
		runtime.Gosched() // lets it answer at once
	}
}

// threads has 500 threads that sleep ten times as long as they work. Each sleeps in the
// kernel, so that it keeps its goroutine.
func threads() string {
	for i := range 500 {
		go func() {
			runtime.LockOSThread()
			for seed := i; ; seed++ {
				request(seed)
				ops.Add(1)
				pause := unix.NsecToTimespec(int64(100 * time.Millisecond))
				unix.Nanosleep(&pause, nil) // a signal may end it early
			}
		}()
	}
	return ""
}

// little works a little and sleeps a millisecond, like a service that is not busy.
func little() string {
	go func() {
		for seed := 0; ; seed++ {
			request(seed)
			ops.Add(1)
			time.Sleep(time.Millisecond)
		}
	}()
	return ""
}

// shortThreads starts one thread after another. Each works for half a millisecond of its
// CPU time, and ends.
func shortThreads() string {
	go func() {
		ended := make(chan bool)
		for {
			go func() {
				runtime.LockOSThread() // never unlocked: the thread ends
				for threadTime() < int64(500*time.Microsecond) {
					request(1)
				}
				ops.Add(1)
				ended <- true
			}()
			<-ended
		}
	}()
	return ""
}

func threadTime() int64 {
	var t unix.Timespec
	fail(unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t))
	return t.Nano()
}

type order struct {
	ID    int
	Name  string
	Lines []line
}

type line struct {
	Item  string
	Price float64
	Count int
}

// request is one request of an ordinary service: decode, sort, recurse, encode.
func request(seed int) int {
	o := order{ID: seed, Name: "order " + strconv.Itoa(seed)}
	for i := range 20 {
		o.Lines = append(o.Lines, line{Item: strconv.Itoa((i * 7919 * seed) % 1000), Price: float64(i) / 3, Count: i})
	}
	encoded, err := json.Marshal(o)
	fail(err) // impossible: the type is plain
	var back order
	fail(json.Unmarshal(encoded, &back))
	sort.Slice(back.Lines, func(i, j int) bool { return back.Lines[i].Item < back.Lines[j].Item })
	return fold(back.Lines, 16)
}

// fold halves its lines recursively, to give the stacks some depth.
func fold(lines []line, depth int) int {
	if len(lines) <= 1 || depth == 0 {
		total := 0
		for _, l := range lines {
			total += l.Count + len(strings.Repeat(l.Item, 3))
		}
		return total
	}
	half := len(lines) / 2
	return fold(lines[:half], depth-1) + fold(lines[half:], depth-1)
}
