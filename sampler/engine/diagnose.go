package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/jfr"
	"github.com/ccmapd/ccmapd/sampler/internal/pprofhttp"
)

// Report says which engines can sample a process, or why none can.
type Report struct {
	Checks  []Check     `json:"checks"`
	Engines []Diagnosis `json:"engines"` // best first
	Auto    string      `json:"auto"`    // the engine that --engine auto takes; empty: none

	// Err is nil if there is an engine. It wraps the errors of package sampler. Code and
	// Reason say the same to others.
	Err    error  `json:"-"`
	Code   string `json:"code,omitempty"` // no-target or not-permitted: there is no engine
	Reason string `json:"reason,omitempty"`
}

// Codes of reports. They are words of the daemon's HTTP API.
const (
	CodeNoTarget     = "no-target"     // no such process, or neither a Go program nor a JVM
	CodeNotPermitted = "not-permitted" // or not possible here
)

// Check is one question to the kernel. The texts may have foreign parts.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Found  string `json:"found"`            // the question, and the answer
	Wanted string `json:"wanted,omitempty"` // if not OK
	Cure   string `json:"cure,omitempty"`   // one command, if not OK
}

// Diagnosis says whether an engine is permitted.
type Diagnosis struct {
	Engine    string   `json:"name"`
	Permitted bool     `json:"permitted"`
	Features  []string `json:"features"`
	Samples   uint64   `json:"samples"`         // taken during the try
	Found     string   `json:"found,omitempty"` // during the try, where it is not samples of the engine's own
	Reason    string   `json:"reason,omitempty"`
	Cure      string   `json:"cure,omitempty"`
	Note      string   `json:"note,omitempty"` // what the try has changed in the process

	Err         error  `json:"-"` // why the engine is not permitted; nil: it is
	Watchpoints uint64 `json:"-"` // of the hardware, that the engine may use
}

const (
	// tryFor is how long an engine samples for a diagnosis.
	tryFor = 200 * time.Millisecond
	// proveFor is how long a source has for its own proof: a daemon may be taking a profile.
	proveFor = 10 * time.Second
)

// Patient is the process that [Diagnose] looks at.
type Patient struct {
	PID    int  // 0: this process, which is busy meanwhile
	Daemon bool // a daemon is asked, and the cures have to change its rights, not those of a command
}

// Diagnose tries all engines on a process, each for 200 ms. Of a process that serves its own profiles it
// takes one of a second.
func Diagnose(ctx context.Context, all []Engine, p Patient) Report {
	pid, target := p.PID, p.PID
	if pid == 0 {
		target = os.Getpid()
		defer beBusy()()
	}
	r := Report{Checks: checksOf(ctx, p)}
	for _, e := range all {
		d := e.Diagnose(ctx, target, tryFor)
		switch {
		case errors.Is(d.Err, pprofhttp.ErrNoEndpoint) && pid != 0 && mayServe(r.Engines):
			d.Cure = cureServe
		case ForOthers(d.Err):
			continue
		case d.Err != nil:
			d.Cure = cmp.Or(cureOfJVM(d.Err, pid), cureOf(d.Engine, r.Checks))
		}
		r.Engines = append(r.Engines, d)
	}
	r.choose(all)
	return r
}

// cureServe makes a Go program serve its own profiles.
const cureServe = `import _ "net/http/pprof" in the program, and serve it on loopback: http.ListenAndServe("127.0.0.1:6060", nil)`

// mayServe reports whether it helps to know that a target could serve its own profiles: no engine can sample it,
// and it may be a Go program. Engine jfr is not among those that were tried if the target is no JVM.
func mayServe(tried []Diagnosis) bool {
	return !slices.ContainsFunc(tried, func(d Diagnosis) bool {
		return d.Err == nil || d.Engine == jfr.Engine && !errors.Is(d.Err, sampler.ErrPermission) ||
			errors.Is(d.Err, sampler.ErrNotManaged) || errors.Is(d.Err, sampler.ErrNoProcess)
	})
}

// choose makes the choice of Attach, for CPU time.
func (r *Report) choose(all []Engine) {
	var refused []refusal
	for _, d := range r.Engines {
		if i := slices.IndexFunc(all, func(e Engine) bool { return e.Name == d.Engine }); i >= 0 && !all[i].samples(ccmap.CPUTime) {
			continue
		}
		if d.Err == nil {
			r.Auto = d.Engine
			return
		}
		if ForOthers(d.Err) && len(refused) > 0 {
			continue
		}
		refused = append(refused, refusal{d.Engine, d.Err})
		if !passedOver(d.Err) {
			break
		}
	}
	if len(refused) > 0 {
		r.Refuse(explain(join(refused), doctor(sampler.ProcessOptions{})))
	}
}

// Refuse notes why there is no engine.
func (r *Report) Refuse(err error) {
	r.Err, r.Reason, r.Code = err, err.Error(), CodeNotPermitted
	if errors.Is(err, sampler.ErrNoProcess) || errors.Is(err, sampler.ErrNotManaged) {
		r.Code = CodeNoTarget
	}
}

// Diagnose attaches the engine to a process, samples it for a time, and detaches. Without a
// time it takes no samples.
func (e Engine) Diagnose(ctx context.Context, pid int, during time.Duration) Diagnosis {
	d := Diagnosis{Engine: e.Name, Features: []string{}}
	s, err := e.Open(ctx, sampler.ProcessOptions{
		PID: pid, Unit: e.first(), Interval: tryEvery, HitBudget: -1, Logger: slog.New(slog.DiscardHandler),
		Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()},
	})
	if d.Note = e.noteOf(err); err == nil {
		d.Watchpoints = s.Stats().Counts[sampler.Watchpoints]
		if d.Found, err = try(ctx, s, during); err != nil && d.Note != "" {
			d.Note = notStopped
		}
	}
	if err != nil {
		d.Err, d.Reason = err, err.Error()
		return d
	}
	d.Permitted, d.Samples = true, s.Stats().Counts[sampler.Samples]
	if !e.samples(ccmap.CPUTime) {
		d.Features = append(d.Features, "waits (--event wait, wall)")
		return d
	}
	if s.Info().NoKernelTime == "" {
		d.Features = append(d.Features, "time in the kernel")
	}
	if d.Watchpoints > 0 {
		d.Features = append(d.Features, "hardware watchpoints", "caught calls")
	}
	return d
}

// tryEvery is the interval of a try.
const tryEvery = 10 * time.Millisecond

// first returns the first unit of an engine.
func (e Engine) first() ccmap.Unit {
	if len(e.Units) > 0 {
		return e.Units[0]
	}
	return ccmap.CPUTime
}

// notStopped is what is left in a JVM where the recording may not have ended.
const notStopped = "it may have started a recording in the JVM, which then ends by itself within a minute"

// noteOf says what opening and closing the engine has changed in a process.
func (e Engine) noteOf(err error) string {
	switch {
	case e.Name != jfr.Engine:
		return ""
	case err == nil:
		return "it has started a recording in the JVM, and stopped it"
	case errors.Is(err, jfr.ErrStart):
		return notStopped
	}
	return "it has started no recording in the JVM"
}

// cureOfJVM returns what lets engine jfr talk to a JVM of another user.
func cureOfJVM(err error, pid int) string {
	switch {
	case errors.Is(err, jfr.ErrAsleep):
		return cureAsleep(pid)
	case errors.Is(err, jfr.ErrOthers):
		return fmt.Sprintf("sudo ccmapd attach %d --engine %s", pid, jfr.Engine)
	}
	return ""
}

// cureAsleep wakes a JVM as its user.
func cureAsleep(pid int) string {
	f, err := process.FactsOf(pid)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("sudo -u %s jcmd %d VM.version", sudoUser(f), pid)
}

// prover is a source that shows in its own time that it works. Prove returns the proof for people.
type prover interface {
	Prove(ctx context.Context) (found string, err error)
}

// try samples for a time and closes the source.
func try(ctx context.Context, s Source, during time.Duration) (found string, err error) {
	if during == 0 {
		return "", s.Close()
	}
	if p, proves := s.(prover); proves {
		ctx, cancel := context.WithTimeout(ctx, proveFor)
		defer cancel()
		found, err = p.Prove(ctx)
		return found, errors.Join(err, s.Close())
	}
	ctx, cancel := context.WithTimeout(ctx, during)
	defer cancel()
	_, err = s.Run(ctx)
	return "", err
}

// beBusy uses the CPU until the returned function is called.
func beBusy() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

// passedOver reports whether another engine may succeed after an error. Nothing else avoids
// a process that is not there.
func passedOver(err error) bool {
	return errors.Is(err, sampler.ErrPermission) || errors.Is(err, sampler.ErrUnsupported)
}

// needs are the checks that an engine depends on, the likeliest reason of a refusal first.
var needs = map[string][]string{
	"bpf":  {checkProgram, checkNamespaces, checkCapabilities, checkCalls, checkLockdown},
	"perf": {checkProgram, checkCalls, checkOwner, checkYama, checkParanoid, checkMemlock, checkFiles, checkNamespaces},
	"jfr":  {checkOwner}, "pprofhttp": {checkOwner},
	"memory": {checkProgram, checkOwner, checkYama, checkCalls},
}

// cureOf returns the cure of the first check that failed of those that an engine depends on. A program that may not be
// read, as it is another's or by Yama, is not what is wrong.
func cureOf(engine string, checks []Check) string {
	failed := func(name string) int {
		return slices.IndexFunc(checks, func(c Check) bool { return c.Name == name && !c.OK })
	}
	for _, name := range needs[engine] {
		if i := failed(name); i >= 0 && (name != checkProgram || failed(checkOwner) < 0 && failed(checkYama) < 0) {
			return checks[i].Cure
		}
	}
	return ""
}
