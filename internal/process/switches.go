package process

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// Switches counts the context switches of a process's threads. One goroutine owns it.
type Switches struct {
	Total uint64 // since the first reading; without the last ones of threads that have ended
	Most  uint64 // between the last two readings, of the thread with most

	pid  int
	last map[uint32]uint64 // thread to its count at the last reading
	next time.Time         // when the next reading is due
	read time.Time         // when the last one began
	took time.Duration     // how long it took
}

const (
	switchesEvery = time.Second
	switchesSoon  = 100 * time.Millisecond
	// switchesRest bounds the cost of reading at one part in so many of the time.
	switchesRest = 500
)

// NewSwitches begins to count the context switches of a process.
func NewSwitches(pid int) *Switches { return &Switches{pid: pid} }

// Due reports whether it is time to read. A process with many threads is read less often.
func (s *Switches) Due(now time.Time) bool { return !now.Before(s.next) }

// Threads returns how many threads the last reading has found: reading each takes some 8 µs.
func (s *Switches) Threads() int { return len(s.last) }

// Soon makes the next reading due sooner.
func (s *Switches) Soon() { s.next = s.read.Add(max(switchesSoon, switchesRest*s.took)) }

// Read reads the counts of all threads.
func (s *Switches) Read() {
	first, now := s.last == nil, time.Now()
	tids, err := Threads(s.pid)
	if err != nil {
		return // the process has ended
	}
	s.Most = 0
	counts := make(map[uint32]uint64, len(tids))
	for _, tid := range tids {
		n, err := SwitchesOf(s.pid, tid)
		if err != nil {
			continue // it has ended
		}
		counts[tid] = n
		if before := s.last[tid]; !first && n > before {
			s.Total += n - before
			s.Most = max(s.Most, n-before)
		}
	}
	s.last = counts
	s.read, s.took = now, time.Since(now)
	s.next = now.Add(max(switchesEvery, switchesRest*s.took))
}

// SwitchesOf returns how often a thread was put on a CPU: the third number of its
// schedstat, which takes a tenth of the time of its status to read (CONFIG_SCHED_INFO,
// Linux 6.18). Without that file it returns the switches of the status.
func SwitchesOf(pid int, tid uint32) (uint64, error) {
	text, err := readTask(pid, tid, "schedstat")
	if err != nil {
		return statusSwitches(pid, tid)
	}
	fields := bytes.Fields(text)
	if len(fields) < 3 {
		return 0, fmt.Errorf("read schedstat of thread %d: too few fields", tid)
	}
	return strconv.ParseUint(string(fields[2]), 10, 64)
}

// statusSwitches adds up voluntary and other switches of a thread.
func statusSwitches(pid int, tid uint32) (sum uint64, err error) {
	text, err := readTask(pid, tid, "status")
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		name, value, _ := bytes.Cut(line, []byte(":"))
		if bytes.HasSuffix(name, []byte("voluntary_ctxt_switches")) {
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 64)
			if err != nil {
				return 0, fmt.Errorf("read switches of thread %d: %w", tid, err)
			}
			sum += n
		}
	}
	return sum, nil
}

// readTask reads a small file of a thread.
func readTask(pid int, tid uint32, name string) ([]byte, error) {
	return readFile(fmt.Sprintf("/proc/%d/task/%d/%s", pid, tid, name))
}
