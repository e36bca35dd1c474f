package process

import "time"

// Strangers are the executables of processes that were neither Go programs nor JVMs when they were attached to. One
// may become a JVM: its launcher maps libjvm.so some time after it begins. So an executable is remembered for a
// while, for a longer one each time. The caller orders the calls.
type Strangers map[FileID]stranger

type stranger struct {
	until time.Time     // processes of it are not attached to
	wait  time.Duration // from the last attempt to until
}

const (
	// mostStrangers bounds the executables that are remembered.
	mostStrangers = 4096
	// The wait begins with the first and ends with the rest.
	firstEstranged, restEstranged = time.Second, time.Minute
)

// Remember remembers an executable.
func (s Strangers) Remember(file FileID) {
	if len(s) >= mostStrangers {
		clear(s)
	}
	wait := min(max(2*s[file].wait, firstEstranged), restEstranged)
	s[file] = stranger{time.Now().Add(wait), wait}
}

// Forget forgets an executable that is no stranger after all.
func (s Strangers) Forget(file FileID) { delete(s, file) }

// Has reports whether processes of an executable need not be attached to now.
func (s Strangers) Has(file FileID) bool { return time.Now().Before(s[file].until) }
