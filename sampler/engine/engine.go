// Package engine lists the engines, which sample processes from outside, and finds the
// one to use. It works like this:
//
//  1. [All] returns the engines, best first. [Endpoint] is one more, for callers that can read
//     what a program serves. [OpenServed] follows a program by its URL alone.
//  2. [Attach] opens the engine that the user asks for. For [Auto] it tries one after
//     another. An engine that is not permitted or not supported here is passed over
//     ([sampler.ErrPermission], [sampler.ErrUnsupported]). Any other error ends the
//     search, because no other engine would avoid it.
//  3. The [Choice] has the source, and says why this engine was taken. If no engine can
//     sample, the error has the reason of each, and the cure.
//  4. [Diagnose] tries all engines for a while, and asks the kernel for everything that
//     they depend on. It finds the engine that Attach takes, by the same rule.
//
// A further engine is an entry of All.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/bpf"
	"github.com/ccmapd/ccmapd/sampler/internal/jfr"
	"github.com/ccmapd/ccmapd/sampler/internal/memory"
	"github.com/ccmapd/ccmapd/sampler/internal/perf"
	"github.com/ccmapd/ccmapd/sampler/internal/pprofhttp"
)

// The names of the engines, in flags and profiles.
const (
	BPF       = bpf.Engine
	Perf      = perf.Engine
	JFR       = jfr.Engine
	Memory    = memory.Engine
	PProfHTTP = pprofhttp.Engine
)

// Units of engine memory.
var (
	Wait = memory.Wait // time of goroutines or threads of Java that wait
	Wall = memory.Wall // … that wait or run
)

// Source is a sampler that can be closed.
type Source interface {
	sampler.Source

	// Close frees a source whose Run is not called.
	Close() error
}

// Engine is one way to sample a process from outside.
type Engine struct {
	Name  string
	Units []ccmap.Unit // that it samples; nil: CPU time alone

	// Open attaches to a process. Its errors wrap the errors of package sampler.
	Open func(context.Context, sampler.ProcessOptions) (Source, error)
}

// All returns all engines, best first.
func All() []Engine {
	return []Engine{
		{bpf.Engine, nil, opens(bpf.Open)},
		{perf.Engine, nil, opens(perf.Open)},
		{jfr.Engine, []ccmap.Unit{ccmap.CPUTime, jfr.Alloc, jfr.Lock}, opens(jfr.Open)},
		{memory.Engine, []ccmap.Unit{memory.Wait, memory.Wall}, opens(memory.Open)},
	}
}

// Units returns the units that engines sample, CPU time first.
func Units(all []Engine) []ccmap.Unit {
	units := []ccmap.Unit{ccmap.CPUTime}
	for _, e := range all {
		for _, u := range e.Units {
			if !slices.Contains(units, u) {
				units = append(units, u)
			}
		}
	}
	return units
}

// samples reports whether the engine samples a unit.
func (e Engine) samples(u ccmap.Unit) bool {
	return len(e.Units) == 0 && u == ccmap.CPUTime || slices.Contains(e.Units, u)
}

// opens returns the function that opens an engine, as [Engine] has it.
func opens[S Source](open func(context.Context, sampler.ProcessOptions) (S, error)) func(context.Context, sampler.ProcessOptions) (Source, error) {
	return func(ctx context.Context, o sampler.ProcessOptions) (Source, error) {
		s, err := open(ctx, o)
		if err != nil {
			return nil, err // not a nil S in an interface
		}
		return s, nil
	}
}

// Auto stands for the best engine that is permitted.
const Auto = "auto"

// Names returns the names that [Attach] takes: Auto and the engines.
func Names(all []Engine) []string {
	names := []string{Auto}
	for _, e := range all {
		names = append(names, e.Name)
	}
	return names
}

// Choice is the source of an engine that was taken.
type Choice struct {
	Source Source
	Why    string // for people, for example "the best engine, and permitted"
}

// Attach opens the engine of the given name, or the first of all that is permitted and
// supported here for [Auto].
func Attach(ctx context.Context, all []Engine, name string, o sampler.ProcessOptions) (Choice, error) {
	var refused []refusal
	for _, e := range all {
		if name != Auto && name != e.Name || !e.samples(o.Unit) {
			continue
		}
		o.Better = better(e, name, refused, doctor(o))
		s, err := e.Open(ctx, o)
		if err == nil {
			return Choice{s, why(name, o.Unit, refused)}, nil
		}
		if name == Auto && ForOthers(err) && len(refused) > 0 {
			continue
		}
		refused = append(refused, refusal{e.Name, err})
		if !passedOver(err) {
			break
		}
	}
	if len(refused) == 0 {
		return Choice{}, unable(all, name, o)
	}
	err := join(refused)
	if isOfWaits(o.Unit) && ForOthers(err) {
		return Choice{}, advice.Add(err, "Only goroutines of a Go program and threads of a JVM tell what they wait for.")
	}
	if o.Unit != ccmap.CPUTime && !isOfWaits(o.Unit) && ForOthers(err) {
		return Choice{}, advice.Add(err, "Only a JVM tells its allocations and waits for locks. Of a Go program, 'ccmapd top' reads what\n"+
			"net/http/pprof serves as /debug/pprof/allocs and /debug/pprof/mutex.")
	}
	return Choice{}, offerWaits(ctx, all, explain(err, doctor(o)), o)
}

// isOfWaits reports whether samples are of what waits, too.
func isOfWaits(u ccmap.Unit) bool { return u == memory.Wait || u == memory.Wall }

// offerWaits says that the waits of a process can be sampled whose CPU time cannot.
func offerWaits(ctx context.Context, all []Engine, err error, o sampler.ProcessOptions) error {
	i := slices.IndexFunc(all, func(e Engine) bool { return e.samples(memory.Wall) })
	if o.Unit != ccmap.CPUTime || i < 0 || !errors.Is(err, sampler.ErrPermission) {
		return err
	}
	o.Unit = memory.Wall
	s, refused := all[i].Open(ctx, o)
	if refused != nil || s.Close() != nil {
		return err
	}
	return advice.Add(err, "Its memory may be read: --event wall samples what its goroutines or threads do, waiting ones included.")
}

// doctor names the command that says what engines lack, for advice.
func doctor(o sampler.ProcessOptions) string { return "'" + cmp.Or(o.Doctor, "ccmapd doctor") + "'" }

// unable says that the engine does not sample the unit, and which one does.
func unable(all []Engine, name string, o sampler.ProcessOptions) error {
	err := fmt.Errorf("attach to process %d by %s: %w, and not %s: %w", o.PID, name, sampler.ErrUnit, o.Unit.Kind(), sampler.ErrUnsupported)
	for _, e := range all {
		if e.samples(o.Unit) {
			return advice.Add(err, "--engine %s does, of a %s.", e.Name, map[bool]string{true: "Go program or a JVM", false: "JVM"}[e.Name == memory.Engine])
		}
	}
	return err
}

// refusal is the reason why an engine cannot sample.
type refusal struct {
	engine string
	err    error
}

// join returns the reasons why no engine can sample, each in a line. It names the engines if their
// reasons differ: a target that no engine can read gives the same one each time. What no engine avoids is
// the one reason.
func join(refused []refusal) error {
	if last := refused[len(refused)-1].err; errors.Is(last, sampler.ErrNotManaged) || errors.Is(last, sampler.ErrNoProcess) {
		return last
	}
	if !slices.ContainsFunc(refused, func(r refusal) bool { return r.err.Error() != refused[0].err.Error() }) {
		return refused[0].err
	}
	var errs []error
	if what, _, _ := strings.Cut(refused[0].err.Error(), ": "); strings.HasPrefix(what, attachPrefix) {
		errs = append(errs, fmt.Errorf("%s: no engine can sample it", what))
	}
	for names, r := range byReason(refused) {
		errs = append(errs, fmt.Errorf("%s: %w", names, withoutProcess(r.err)))
	}
	return errors.Join(errs...)
}

// byReason yields the refusals with the names of the engines, those that follow each other with one reason
// together.
func byReason(refused []refusal) iter.Seq2[string, refusal] {
	same := func(a, b refusal) bool { return a.err.Error() == b.err.Error() }
	return func(yield func(string, refusal) bool) {
		for from := 0; from < len(refused); {
			r, names := refused[from], refused[from].engine
			for from++; from < len(refused) && same(r, refused[from]); from++ {
				names += ", " + refused[from].engine
			}
			if !yield(names, r) {
				return
			}
		}
	}
}

// why says why an engine was taken after others had refused.
func why(name string, unit ccmap.Unit, refused []refusal) string {
	switch {
	case name != Auto:
		return "as asked for"
	case unit != ccmap.CPUTime:
		return "the engine that samples " + unit.Kind()
	case len(refused) == 0:
		return "the best engine, and permitted"
	}
	text := "the best engine permitted"
	for names, r := range byReason(refused) {
		text += fmt.Sprintf("; %s: %v", names, withoutProcess(r.err))
	}
	return text
}

// better says how to get engine bpf in place of perf, unless this machine cannot have it.
func better(e Engine, name string, refused []refusal, doctor string) string {
	const avoids = "engine bpf, which samples CPUs, avoids that"
	if e.Name != perf.Engine {
		return ""
	}
	if name != Auto {
		return avoids + " (" + doctor + " says whether it is permitted)"
	}
	for _, r := range refused {
		if r.engine == bpf.Engine && errors.Is(r.err, sampler.ErrPermission) {
			return avoids + ": run ccmapd as root, or with CAP_BPF, CAP_PERFMON and CAP_SYS_PTRACE (" + doctor + " has the command)"
		}
	}
	return ""
}

// explain adds advice to an error in attaching.
func explain(err error, doctor string) error {
	switch {
	case errors.Is(err, sampler.ErrNoProcess):
		return advice.Add(err, "'pgrep -l NAME' finds the process id of a program.")
	case errors.Is(err, sampler.ErrNotManaged):
		return advice.Add(err, "Only programs built by Go's own compiler, and HotSpot JVMs, can be sampled. If this one runs another, attach to that.")
	case errors.Is(err, jfr.ErrAsleep):
		return advice.Add(err, "'jcmd PID VM.version', as the JVM's user, wakes it.")
	case errors.Is(err, sampler.ErrPermission):
		return advice.Add(err, "%s says what forbids it here, and what permits it.", doctor)
	case errors.Is(err, gosym.ErrTooMuch):
		return advice.Add(err, "Its symbols are larger than those of any known program, or are made to exhaust ccmapd. Its own net/http/pprof can profile it.")
	}
	return err
}
