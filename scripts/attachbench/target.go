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
)

// targetVariable makes this program the target; its value is GOMAXPROCS.
const targetVariable = "CCMAPD_ATTACHBENCH_TARGET"

// target is a running target. It answers one line for each line it is sent:
//
//	ops                    → operations since it began
//	profile FILE DURATION  → "done", once its own CPU profile of so long is in FILE
type target struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func startTarget(cpus int) (*target, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this executable: %w", err)
	}
	cmd := exec.Command(self)
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
	t.cmd.Wait() // it ends when its input does; its exit code says nothing
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

// rate is how fast a target was over a window, in operations.
type rate struct {
	perSecond float64
	// perCPUSecond is what other load on the machine does not disturb. It shows
	// what sampling costs because the kernel charges an interrupt to the thread
	// that it interrupts, unless built with CONFIG_IRQ_TIME_ACCOUNTING.
	perCPUSecond float64
}

func (t *target) rate(window time.Duration) (rate, error) {
	before, err := t.reading()
	if err != nil {
		return rate{}, err
	}
	time.Sleep(window)
	after, err := t.reading()
	if err != nil {
		return rate{}, err
	}
	ops := float64(after.ops - before.ops)
	return rate{
		perSecond:    ops / after.at.Sub(before.at).Seconds(),
		perCPUSecond: ops / (after.cpu - before.cpu).Seconds(),
	}, nil
}

type reading struct {
	ops int64
	cpu time.Duration
	at  time.Time
}

func (t *target) reading() (reading, error) {
	ops, err := t.ops()
	if err != nil {
		return reading{}, err
	}
	cpu, err := cpuTime(t.cmd.Process.Pid)
	return reading{ops, cpu, time.Now()}, err
}

func (t *target) ops() (int64, error) {
	answer, err := t.ask("ops")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(answer, 10, 64)
}

// runTarget is the target's side: it works on every processor it may use and
// answers its questions until its input ends.
func runTarget(in io.Reader, out io.Writer) {
	cpus, _ := strconv.Atoi(os.Getenv(targetVariable))
	runtime.GOMAXPROCS(max(cpus, 1))
	var ops atomic.Int64
	for range max(cpus, 1) {
		go func() {
			for seed := 1; ; seed++ {
				operate(seed)
				ops.Add(1)
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
		return strconv.FormatInt(ops.Load(), 10), nil
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
		panic(err) // cannot be: the type is plain
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
