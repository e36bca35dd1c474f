package jfr

import (
	"path"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
)

// rival finds another profiler in the JVM that has taken the signal by which the JVM samples CPU time.
//
// jdk.CPUTimeSample comes by SIGPROF. A JVM whose SIGPROF has another handler takes no sample, and one
// that loses its handler later takes no more (init_timers in jfrCPUTimeThreadSampler.cpp, JDK 25.0.3:
// "Conflicting SIGPROF handler found"). Nothing outside tells whose handler it is, so a profiler is blamed
// if its library is mapped and samples are missing. One goroutine owns a rival.
type rival struct {
	libraries func() ([]string, error) // of the JVM
	next      time.Time                // when to look at them again
	name      string                   // of the profiler; empty: none is known
}

// profilers handle SIGPROF. Each is known by a part of the name of its library, in small letters, which is
// often a copy under another name. async-profiler 4.5 was tried, on JDK 25.0.3. Datadog's java-profiler is
// made of it, and gperftools uses ITIMER_PROF.
var profilers = []struct{ library, name string }{
	{"asyncprofiler", "async-profiler"},
	{"async-profiler", "async-profiler"},
	{"javaprofiler", "Datadog's profiler"},
	{"libprofiler.so", "gperftools"},
}

const (
	missesSome = 0.1                    // of the CPU time: a profiler that is mapped may be why
	missesMost = 0.5                    // one that is not known may be
	leastClock = 500 * time.Millisecond // CPU time that tells
	looksApart = 10 * time.Second
)

// look says why samples are missing, empty if they are not.
func (r *rival) look(now time.Time, loss ccmap.Loss) string {
	share, known := loss.UnaccountedShare()
	if !known || share < missesSome || loss.Clock < leastClock {
		return ""
	}
	if r.name == "" && !now.Before(r.next) {
		r.next = now.Add(looksApart)
		r.name = r.find()
	}
	const cure = "sample by --engine bpf or perf, which need no signal, or start the JVM anew"
	switch {
	case r.name == "async-profiler":
		return "async-profiler is in the JVM and has its signal SIGPROF, also after it was stopped, and the JVM samples CPU time by that signal: " + cure +
			" and give async-profiler another signal (--signal)"
	case r.name != "":
		return r.name + " is in the JVM and takes its signal SIGPROF, by which the JVM samples CPU time: " + cure + " without it"
	case share >= missesMost:
		return "the JVM does not sample threads of native code, nor any thread if a library takes its signal SIGPROF (then it says 'Conflicting SIGPROF handler found'): " + cure
	}
	return ""
}

// find returns the name of a profiler in the JVM, empty if there is none or libraries cannot be read.
func (r *rival) find() string {
	libraries, err := r.libraries()
	if err != nil {
		return ""
	}
	for _, library := range libraries {
		file := strings.ToLower(path.Base(library))
		for _, p := range profilers {
			if strings.Contains(file, p.library) {
				return p.name
			}
		}
	}
	return ""
}
