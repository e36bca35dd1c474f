package supervise

import (
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
)

// strangers are the executables of processes that were neither Go programs nor JVMs when they were opened. One may
// become a JVM: its launcher maps libjvm.so some time after it begins. So an executable is remembered for a while, for
// a longer one each time. The caller orders the calls.
type strangers map[process.FileID]Backoff

// mostStrangers bounds the executables that are remembered.
const mostStrangers = 4096

// Estranged is how long an executable is remembered.
var Estranged = Backoff{First: time.Second, Longest: time.Minute}

// remember remembers an executable, at first for the first wait of a backoff.
func (s strangers) remember(file process.FileID, first Backoff) {
	if len(s) >= mostStrangers {
		clear(s)
	}
	wait, known := s[file]
	if !known {
		wait = first
	}
	wait.Fail(time.Now(), 0)
	s[file] = wait
}

// forget forgets an executable that is no stranger after all.
func (s strangers) forget(file process.FileID) { delete(s, file) }

// has reports whether processes of an executable need not be opened now.
func (s strangers) has(file process.FileID) bool { return time.Now().Before(s[file].until) }
