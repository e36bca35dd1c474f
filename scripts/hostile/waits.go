package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/scripts/report"
)

// waitsCampaign reads, by engine memory, what waits in programs that lie about it: that end, collect or change while they
// are read.
var waitsCampaign = kind{
	name:  "waits",
	about: "read what waits in programs that lie about it, or end or collect meanwhile",
	example: `  go -C scripts run ./hostile waits             all, some minutes
  go -C scripts run ./hostile waits -only '*JVM*' -o ''
                                             some, and print the table`,
	head: []string{"target, and command", "rounds", "ended well", "with an error", "slowest", "most CPU time", "most memory"},
	run:  runWaits,
}

// Bounds of a session. CPU time is the same however busy the machine is; only a hang takes a minute.
const (
	waitsMemory = 256 << 20
	waitsTime   = time.Minute
	waitsCPU    = 20 * time.Second
)

// waitsTarget is a program, and what is done to it when ccmapd has begun to look.
type waitsTarget struct {
	name          string
	rounds, quick int
	command       []string
	attack        func(context.Context, *talker)
}

// waitsTargets makes the programs.
func (h *hostile) waitsTargets(ctx context.Context) ([]waitsTarget, error) {
	liar, err := h.build(ctx, "waits-liar", "./sampler/internal/memory/testdata/liar", "-ldflags=-checklinkname=0")
	if err != nil {
		return nil, err
	}
	lies := func(ctx context.Context, t *talker) {
		pause(ctx, time.Second)
		t.tell()
	}
	var all []waitsTarget
	for _, of := range [][2]string{
		{"wild", "2 million goroutines anywhere"}, {"cycle", "2 million times one goroutine"}, {"stacks", "2 million goroutines with stacks of 70 TB"},
		{"endless", "2^60 goroutines"}, {"unmaps", "goroutines whose pages come and go"}, {"changes", "goroutines that change all the time"},
	} {
		all = append(all, waitsTarget{of[1], 2, 1, []string{liar, of[0]}, lies})
	}
	java, _ := filepath.Glob(filepath.Join(jvmHomes[1].pattern, "bin/java"))
	if len(java) == 0 {
		h.Say("there is no JDK 25")
		return all, nil
	}
	classes, err := h.compileRests(ctx, java[0])
	if err != nil {
		return nil, err
	}
	jvm := func(args ...string) []string {
		return append([]string{java[0], "-Xmx1g", "-XX:-UsePerfData", "-cp", classes, "Rests"}, args...)
	}
	nothing := func(context.Context, *talker) {}
	return append(all,
		waitsTarget{"a JVM with 20,000 virtual threads, collecting all the time", 3, 1, jvm("20000", "gc", "goes"), nothing},
		waitsTarget{"a JVM with 20,000 virtual threads, killed", 10, 2, jvm("20000"), kills},
		waitsTarget{"a JVM with 20,000 virtual threads, whose heap is mixed up", 5, 1, jvm("20000"), mixes},
	), nil
}

// compileRests compiles the program of the JVMs, and returns the folder of its classes.
func (h *hostile) compileRests(ctx context.Context, java string) (string, error) {
	folder := h.Path("waits-classes")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	const source = "internal/jvm/jvmtest/testdata/Rests.java"
	javac := filepath.Join(filepath.Dir(java), "javac")
	if out, err := exec.CommandContext(ctx, javac, "-d", folder, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile %s: %w\n%s", source, err, out)
	}
	return folder, nil
}

func runWaits(ctx context.Context, h *hostile) error {
	all, err := h.waitsTargets(ctx)
	if err != nil {
		return err
	}
	commands := [][]string{{"attach", "--event", "wait", "-d", "2s", "-o", h.Path("waits.json")}, {"stuck", "--longer", "1s"}}
	for _, t := range all {
		for _, command := range commands {
			name := t.name + ", " + command[0]
			if h.wants(t.name, name) {
				if err := h.attackWaits(ctx, t, command, name); err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
			}
		}
	}
	return nil
}

// attackWaits runs all rounds of an attack, each on a new process, and adds their row.
func (h *hostile) attackWaits(ctx context.Context, t waitsTarget, command []string, name string) error {
	if h.Quick {
		t.rounds = t.quick
	}
	var r row
	var most outcome
	failed := 0
	for range t.rounds {
		o, err := h.lookAtWaits(ctx, t, command)
		if err != nil {
			return err
		}
		most.took, most.cpu, most.rss = max(most.took, o.took), max(most.cpu, o.cpu), max(most.rss, o.rss)
		switch {
		case o.timedOut || o.panicked() || o.signal != 0:
			r.miss("%s: %s", o.how(), tail(o.stderr))
		case o.code != 0:
			h.Say("%s: %s", name, o.result())
			failed++
		}
	}
	r.cells = []string{
		name, strconv.Itoa(t.rounds), strconv.Itoa(t.rounds - failed - len(r.misses)), strconv.Itoa(failed),
		report.Seconds(most.took.Seconds()), report.Seconds(most.cpu.Seconds()), fmt.Sprintf("%d MiB", most.rss>>20),
	}
	if most.took > waitsTime {
		r.late("it took %v", most.took)
	}
	if most.cpu > waitsCPU {
		r.miss("it took %v of CPU time", most.cpu)
	}
	if most.rss > waitsMemory {
		r.miss("it had %d MiB", most.rss>>20)
	}
	h.add(r)
	return nil
}

// lookAtWaits starts a target, and a ccmapd that looks at it while it is attacked.
func (h *hostile) lookAtWaits(ctx context.Context, t waitsTarget, command []string) (outcome, error) {
	target, err := startTalker(ctx, t.command)
	if err != nil {
		return outcome{}, err
	}
	defer target.end()
	attacking, stop := context.WithCancel(ctx)
	attacked := make(chan struct{})
	go func() {
		defer close(attacked)
		t.attack(attacking, target)
	}()
	line := append([]string{h.Ccmapd, command[0], strconv.Itoa(target.cmd.Process.Pid)}, command[1:]...)
	o, err := h.child(ctx, limits{memory: targetAddress, time: 5 * waitsTime}, line...)
	stop()
	<-attacked
	return o, err
}

// kills kills a JVM at some moment.
func kills(ctx context.Context, t *talker) {
	pause(ctx, rand.N(2500*time.Millisecond))
	t.cmd.Process.Kill()
}

// mixes stops a JVM, as it would believe its heap, too, and copies words of its heap to other places there, again and again.
func mixes(ctx context.Context, t *talker) {
	pause(ctx, rand.N(time.Second))
	_ = t.cmd.Process.Signal(unix.SIGSTOP)
	memory, err := os.OpenFile(fmt.Sprintf("/proc/%d/mem", t.cmd.Process.Pid), os.O_RDWR, 0)
	if err != nil {
		return
	}
	defer memory.Close()
	const page, ofPage = 4096, 16 // words
	pages := largeMappings(t.cmd.Process.Pid, page)
	from, to := make([]byte, page), make([]byte, page)
	for n := 0; ctx.Err() == nil && len(pages) > 0; n++ {
		at := pages[rand.IntN(len(pages))]
		_, err1 := memory.ReadAt(from, pages[rand.IntN(len(pages))])
		_, err2 := memory.ReadAt(to, at)
		if err1 != nil || err2 != nil {
			continue
		}
		for range ofPage {
			if word := to[8*rand.IntN(page/8):][:8]; binary.NativeEndian.Uint64(word) != 0 {
				copy(word, from[8*rand.IntN(page/8):][:8])
			}
		}
		if _, err := memory.WriteAt(to, at); err != nil {
			return
		}
		if n%64 == 0 {
			time.Sleep(time.Millisecond) // it lasts for the whole session
		}
	}
}

// largeMappings returns the pages of a process that may be those of its heap, and were written.
func largeMappings(pid, page int) (pages []int64) {
	maps, err := os.Open(fmt.Sprintf("/proc/%d/maps", pid))
	if err != nil {
		return nil
	}
	defer maps.Close()
	pagemap, err := os.Open(fmt.Sprintf("/proc/%d/pagemap", pid))
	if err != nil {
		return nil
	}
	defer pagemap.Close()
	const large, mostPages = 4 << 20, 1 << 18
	for lines := bufio.NewScanner(maps); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		var from, to int64
		if _, err := fmt.Sscanf(fields[0], "%x-%x", &from, &to); err != nil || len(fields) > 5 || fields[1] != "rw-p" || to-from < large {
			continue
		}
		var present [8]byte
		for at := from; at < to && len(pages) < mostPages; at += int64(page) {
			if _, err := pagemap.ReadAt(present[:], at/int64(page)*8); err == nil && present[7]&0x80 != 0 {
				pages = append(pages, at)
			}
		}
	}
	return pages
}

// pause waits for a time.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// talker is a program that says when it is ready, and acts on lines.
type talker struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
}

// startTalker starts a program, and waits until it is ready.
func startTalker(ctx context.Context, command []string) (*talker, error) {
	t := &talker{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	out, err := t.cmd.StdoutPipe()
	if err == nil {
		t.stdin, err = t.cmd.StdinPipe()
	}
	if err == nil {
		err = t.cmd.Start()
	}
	if err != nil {
		return nil, err
	}
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "ready") {
			return t, nil
		}
	}
	t.end()
	return nil, errors.New("the target ended before it was ready")
}

func (t *talker) tell() { _, _ = io.WriteString(t.stdin, "\n") } // it may have ended

func (t *talker) end() {
	t.stdin.Close()
	t.cmd.Process.Kill()
	t.cmd.Wait()
}
