package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"sort"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// targetVariable makes this program the target; its value is GOMAXPROCS.
const targetVariable = "CCMAPD_ATTACHBENCH_TARGET"

// target is a running target. It answers each line with one line:
//
//	ops                    → operations since it began, its CPU time and the time, in ns
//	profile FILE DURATION  → "done", once its own CPU profile of that time is in FILE
type target struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startTarget starts a target that does one of the works.
func startTarget(cpus int, work string) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	cmd := exec.Command(self, work)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", targetVariable, cpus))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start target: %w", err)
	}
	return &target{cmd: cmd, in: in, out: bufio.NewReader(out)}, nil
}

func (t *target) stop() {
	t.in.Close()
	t.cmd.Wait() // it ends when its input does; its exit code does not matter
}

func (t *target) ask(line string) (string, error) {
	if _, err := fmt.Fprintln(t.in, line); err != nil {
		return "", fmt.Errorf("ask target: %w", err)
	}
	answer, err := t.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("read target's answer: %w", err)
	}
	return strings.TrimSpace(answer), nil
}

// rate is a target's speed over a window, in operations.
type rate struct {
	perSecond float64
	// perCPUSecond is not disturbed by other load on the machine. It shows the cost of
	// sampling because the kernel charges an interrupt to the thread that it interrupts,
	// unless built with CONFIG_IRQ_TIME_ACCOUNTING.
	perCPUSecond float64
}

func (t *target) rate(window time.Duration) (rate, error) {
	done, err := t.work(window)
	return done.rate(), err
}

// reading is a target's work since it began, or in some time, by its own clocks.
type reading struct {
	ops     int64
	cpu, at time.Duration
}

func (r reading) rate() rate {
	ops := float64(r.ops)
	return rate{perSecond: ops / r.at.Seconds(), perCPUSecond: ops / r.cpu.Seconds()}
}

// work returns the target's work in a window.
func (t *target) work(window time.Duration) (reading, error) {
	before, err := t.reading()
	if err != nil {
		return reading{}, err
	}
	time.Sleep(window)
	after, err := t.reading()
	return reading{after.ops - before.ops, after.cpu - before.cpu, after.at - before.at}, err
}

func (t *target) reading() (r reading, err error) {
	answer, err := t.ask("ops")
	if err != nil {
		return reading{}, err
	}
	_, err = fmt.Sscan(answer, &r.ops, (*int64)(&r.cpu), (*int64)(&r.at))
	return r, err
}

// works are the kinds of work: each call is one operation, with a number.
var works = map[string]func(number int){
	"service": operate,
	"calls":   makeCalls,
}

// runTarget is the target's side: it works on every available processor and answers
// questions until its input ends.
func runTarget(work string, in io.Reader, out io.Writer) {
	operate := works[work]
	cpus, _ := strconv.Atoi(os.Getenv(targetVariable))
	runtime.GOMAXPROCS(max(cpus, 1))
	var ops atomic.Int64
	for range max(cpus, 1) {
		go func() {
			for seed := 1; ; seed++ {
				operate(seed)
				ops.Add(1)
				runtime.Gosched() // lets it answer at once
			}
		}()
	}
	for lines := bufio.NewScanner(in); lines.Scan(); {
		answer, err := reply(lines.Text(), &ops)
		if err != nil {
			answer = "error: " + err.Error()
		}
		fmt.Fprintln(out, answer)
	}
}

func reply(line string, ops *atomic.Int64) (string, error) {
	words := strings.Fields(line)
	switch {
	case len(words) == 1 && words[0] == "ops":
		return readSelf(ops)
	case len(words) == 3 && words[0] == "profile":
		return "done", profileSelf(words[1], words[2])
	}
	return "", errors.New("unknown request")
}

// readSelf is a reading of this process, by its own clocks: the clocks of /proc are as
// old as the last tick of the kernel.
func readSelf(ops *atomic.Int64) (string, error) {
	done := ops.Load()
	var cpu, now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &cpu); err != nil {
		return "", err
	}
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return "", err
	}
	return fmt.Sprint(done, cpu.Nano(), now.Nano()), nil
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

// operate is one request of an ordinary service: decode, sort, recurse, encode.
func operate(seed int) {
	o := order{ID: seed, Name: "order " + strconv.Itoa(seed)}
	for i := range 20 {
		o.Lines = append(o.Lines, line{Item: strconv.Itoa((i * 7919 * seed) % 1000), Price: float64(i) / 3, Count: i})
	}
	encoded, err := json.Marshal(o)
	if err != nil {
		panic(err) // impossible: the type is plain
	}
	var back order
	if err := json.Unmarshal(encoded, &back); err != nil {
		panic(err)
	}
	sort.Slice(back.Lines, func(i, j int) bool { return back.Lines[i].Item < back.Lines[j].Item })
	sink.Store(int64(fold(back.Lines, 16)))
}

var sink atomic.Int64

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

// step has two implementations. They do arithmetic, which always takes the same time, so
// that half a percent more can be seen.
type step interface{ next(x uint64) uint64 }

type (
	shiftLeft  struct{ by uint }
	shiftRight struct{ by uint }
)

//go:noinline
func (s *shiftLeft) next(x uint64) uint64 {
	for range stepRounds {
		x ^= x << s.by
		x ^= x >> 7
	}
	return x
}

//go:noinline
func (s *shiftRight) next(x uint64) uint64 {
	for range stepRounds {
		x ^= x >> s.by
		x ^= x << 17
	}
	return x
}

const stepRounds = 50

var steps = []step{&shiftLeft{13}, &shiftLeft{11}, &shiftRight{7}, &shiftLeft{5}}

// makeCalls makes a hundred calls through an interface.
func makeCalls(number int) {
	x := uint64(number) | 1
	for i := range 100 {
		x = walk(steps[i%len(steps)], x)
	}
	sink.Store(int64(x))
}

//go:noinline
func walk(s step, x uint64) uint64 { return s.next(x) + 1 }
