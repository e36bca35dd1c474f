package family

import (
	"context"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// ages are the times after an exec at which a process is looked at, while it looks like neither a Go
// program nor a JVM. The launcher of a JVM is a stranger until it has loaded its library.
var ages = [...]time.Duration{0, 100 * time.Millisecond, time.Second, 10 * time.Second}

// mostStrangers bounds the executables that are remembered as no programs to sample.
const mostStrangers = 1024

// strangers has, for each executable, how many of the ages have found a stranger in a process of it.
// Other processes of it are not looked at before the next age.
type strangers map[process.FileID]int

// met notes that a process was a stranger at the first so many ages.
func (s strangers) met(file process.FileID, looks int) {
	if len(s) >= mostStrangers {
		clear(s)
	}
	s[file] = max(s[file], looks)
}

// skips notes a member's executable, and reports whether an earlier process of it was a stranger at the
// member's age.
func (f *Family) skips(m *member, file process.FileID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	m.file = file
	return m.looks < f.strangers[file]
}

// lookLater notes that a member is a stranger as yet, and looks again at the next age. The caller
// holds mu.
func (f *Family) lookLater(m *member) {
	m.looks++
	f.strangers.met(m.file, m.looks)
	m.looks = f.strangers[m.file]
	if m.looks < len(ages) && !m.dead && !m.wanted {
		m.due = time.AfterFunc(time.Until(m.executed.Add(ages[m.looks])), func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.want(m)
		})
	}
}

// mostLoading bounds how long the kernel may take to map a program.
const mostLoading = time.Second

// awaitProgram waits until the kernel has mapped the program that a process executes: it tells of
// the exec before. No event tells the end.
func awaitProgram(ctx context.Context, pid int) error {
	for start := time.Now(); time.Since(start) < mostLoading && ctx.Err() == nil; time.Sleep(pace) {
		stat, err := process.ReadStat(pid)
		if err != nil {
			return err
		}
		if stat.Loaded() || stat.Zombie() {
			break
		}
	}
	return process.CheckAlive(pid)
}
