package jfr

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// threads reads the CPU clocks of a process's threads. One goroutine owns it.
type threads struct {
	pid      int
	nested   bool // the process has a namespace of pids of its own
	clock    sampler.Clock
	now      int64 // CLOCK_MONOTONIC of the last reading
	readings map[uint32]reading
	outers   map[uint32]uint32 // by tid in the process's own namespace
}

// reading is what the clocks of a thread said last, since its start.
type reading struct {
	total  int64 // ns that the scheduler has counted
	kernel int64 // ns of them in the kernel, as the kernel's ticks divide it
	name   string
}

// usage is what a thread has used since the reading before.
type usage struct {
	tid           uint32
	name          string
	total, kernel int64 // ns
}

func newThreads(pid int) *threads {
	return &threads{
		pid: pid, nested: process.IsNested(pid), clock: sampler.NewClock(),
		readings: make(map[uint32]reading), outers: make(map[uint32]uint32),
	}
}

// count returns how many threads there were.
func (t *threads) count() int { return len(t.readings) }

// outer returns the tid here of a thread of the process's own namespace; 0: not known.
func (t *threads) outer(inner uint32) uint32 {
	if !t.nested {
		return inner
	}
	return t.outers[inner]
}

// read reads all clocks, and returns what each thread has used since. A thread that has ended
// since is not among them.
func (t *threads) read() []usage {
	t.now = t.clock.Now()
	tids, err := process.Threads(t.pid)
	if err != nil {
		return nil
	}
	readings := make(map[uint32]reading, len(tids))
	var used []usage
	for _, tid := range tids {
		r, err := readThread(t.pid, tid)
		if err != nil {
			continue
		}
		before := t.readings[tid]
		r.kernel = max(r.kernel, before.kernel) // the ticks' division is not monotonic
		readings[tid] = r
		if total := r.total - before.total; total > 0 {
			used = append(used, usage{tid, r.name, total, min(r.kernel-before.kernel, total)})
		}
		if t.nested {
			t.outers[process.InnerThread(t.pid, tid)] = tid
		}
	}
	t.readings = readings
	return used
}

// tickTime is the unit of times in /proc/PID/stat (USER_HZ).
const tickTime = 10 * time.Millisecond

// readThread reads a thread's clocks: its time from schedstat, which counts exactly, and the
// kernel's part of it from stat.
func readThread(pid int, tid uint32) (reading, error) {
	base := fmt.Sprintf("/proc/%d/task/%d/", pid, tid)
	stat, err := os.ReadFile(base + "stat")
	if err != nil {
		return reading{}, err
	}
	r, user, system, err := parseStat(string(stat))
	if err != nil {
		return r, err
	}
	r.total = int64(user+system) * int64(tickTime)
	if exact, err := os.ReadFile(base + "schedstat"); err == nil {
		first, _, _ := strings.Cut(string(exact), " ")
		if ns, err := strconv.ParseInt(first, 10, 64); err == nil {
			r.total = ns
		}
	}
	if ticks := user + system; ticks > 0 {
		r.kernel = int64(float64(r.total) * float64(system) / float64(ticks))
	}
	return r, nil
}

var errStat = errors.New("unknown format of stat")

// parseStat parses name and ticks. The name is in parentheses, and may have some itself.
func parseStat(text string) (r reading, user, system uint64, err error) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 0 || end < open {
		return r, 0, 0, errStat
	}
	r.name = text[open+1 : end]
	const utime, stime = 11, 12 // counted from the state (proc_pid_stat(5))
	fields := strings.Fields(text[end+1:])
	if len(fields) <= stime {
		return r, 0, 0, errStat
	}
	user, err1 := strconv.ParseUint(fields[utime], 10, 63)
	system, err2 := strconv.ParseUint(fields[stime], 10, 63)
	return r, user, system, errors.Join(err1, err2)
}

// Kinds of threads that are there for the recording alone.
const (
	samplerKind  = "sampler"  // takes samples
	recorderKind = "recorder" // writes them, or talks to ccmapd
)

func isOverhead(kind string) bool { return kind == samplerKind || kind == recorderKind }

// threadKinds are the beginnings of the names of a JVM's own threads, of JDK 17 and 25. The
// kernel keeps 15 bytes of a name.
var threadKinds = []struct{ prefix, kind string }{
	{"JFR Thread Samp", samplerKind}, {"JFR Sampler Thr", samplerKind}, {"JFR CPU Sampler", samplerKind},
	{"JFR ", recorderKind}, {"Attach Listener", recorderKind},
	{"GC Thread#", collectorName}, {"G1 ", collectorName}, {"ZWorker", collectorName}, {"ZDriver", collectorName},
	{"ZDirector", collectorName}, {"ZStat", collectorName}, {"ZUncommitter", collectorName}, {"ZUnmapper", collectorName},
	{"XWorker", collectorName}, {"Shenandoah", collectorName}, {"ParGC", collectorName},
	{"C1 CompilerThre", compilerName}, {"C2 CompilerThre", compilerName},
	{"VM Thread", machineName}, {"VM Periodic Tas", machineName}, {"Monitor Deflati", machineName}, {"Service Thread", machineName},
}

// kindOfThread returns what a thread of the JVM itself does; empty: it may run Java code.
func kindOfThread(name string) string {
	for _, k := range threadKinds {
		if strings.HasPrefix(name, k.prefix) {
			return k.kind
		}
	}
	return ""
}
