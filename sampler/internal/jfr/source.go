package jfr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
)

// Engine is the name of the engine in profiles.
const Engine = "jfr"

// Errors of Open that callers tell apart by errors.Is.
var (
	ErrNotJVM = attach.ErrNotJVM // the target is no HotSpot JVM, so this engine is not for it
	ErrAsleep = attach.ErrAsleep // the JVM must be woken by its user, or with CAP_KILL
	ErrOthers = attach.ErrOthers // the JVM takes no commands of this user

	// ErrStart is of the command that starts the recording: the JVM may have started it, and then ends
	// it after a minute. After all other errors there is no recording.
	ErrStart = errors.New("start recording")
)

// Options of a Source.
type Options = sampler.ProcessOptions

// Source samples one JVM.
//
//	Recording   see there
//	event, info, asked written by Open only
//	interval    atomic; in force, ns. Open writes it, then the goroutine that talks to the JVM
//	change      atomic; how long the last change of the interval took, ns; likewise
//	picked      atomic; ns between two allocations that the JVM picks, 0: it tells all. The goroutine that talks
//	            to the JVM writes it
//	bounded     the goroutine of Run
//	wishes      holds the interval that SetInterval was last called with, until it is taken
//	folder      Open, then the goroutine of Run
//	rival       likewise
//	stats       Run writes, any goroutine reads
type Source struct {
	*Recording
	event    event
	interval atomic.Int64
	change   atomic.Int64
	picked   atomic.Int64
	bounded  bool               // the JVM was asked to pick allocations
	wishes   chan time.Duration // capacity 1
	info     sampler.Info
	asked    time.Duration // interval
	folder   *folder
	rival    rival
	stats    atomic.Pointer[sampler.Stats]
}

var (
	_ sampler.Source  = (*Source)(nil)
	_ sampler.Tunable = (*Source)(nil)
)

// Open starts a recording in a running JVM. It takes about a second, and several where the
// machine is busy. Errors wrap those of package sampler.
func Open(ctx context.Context, o Options) (*Source, error) {
	o, err := o.WithDefaults(Alloc, Lock)
	if err != nil {
		return nil, err
	}
	s := &Source{wishes: make(chan time.Duration, 1)}
	if s.Recording, err = openRecording(o.PID); err == nil {
		err = s.open(ctx, o)
	}
	if err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, Classify(errors.Join(err, s.Close())))
	}
	return s, nil
}

func (s *Source) open(ctx context.Context, o Options) (err error) {
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	interval := wholeMilliseconds(o.Interval)
	s.event = eventOf(o.Unit, version)
	s.info = sampler.Info{Target: process.Describe(o.PID), Engine: Engine, Unit: o.Unit, Of: s.event.of(interval), Sink: o.Sink}
	s.info.Target.Runtime = version.text
	if err := s.startRecording(ctx, s.event.settings(interval)); err != nil {
		return err
	}
	s.folder, s.asked = newFolder(o, s.event), interval
	s.rival.libraries = func() ([]string, error) { return process.Libraries(o.PID) }
	if s.isTimed() {
		s.interval.Store(int64(interval))
		s.control.changer = changer{interval: interval, wishes: s.wishes, settings: s.event.settings, made: s.changed}
	} else if s.event.measure == recording.Alloc {
		s.control.changer = changer{wishes: s.wishes, settings: throttled().settings, made: func(interval, _ time.Duration) { s.picked.Store(int64(interval)) }}
	}
	s.publish()
	return nil
}

// isTimed reports whether samples are of CPU time, at an interval.
func (s *Source) isTimed() bool { return s.event.measure == recording.CPU }

// SetInterval implements [sampler.Tunable]. The JVM takes a new recording for it, so the interval
// is in force later: [sampler.Stats] says when. It is whole milliseconds. Changes come 5 s apart, and
// one by less than a half is left out.
func (s *Source) SetInterval(d time.Duration) error {
	if !s.isTimed() {
		return fmt.Errorf("set the interval: samples of %s have none", s.info.Unit.Kind())
	}
	for {
		select {
		case s.wishes <- wholeMilliseconds(d):
			return nil
		default:
		}
		select {
		case <-s.wishes: // an earlier one
		default:
		}
	}
}

// changed notes the interval in force, and how long the change took.
func (s *Source) changed(interval, took time.Duration) {
	s.change.Store(int64(took))
	s.interval.Store(int64(interval))
}

// Classify makes errors of package attach those of package sampler.
func Classify(err error) error {
	for _, c := range []struct{ is, kind error }{
		{attach.ErrNoProcess, sampler.ErrNoProcess},
		{os.ErrPermission, sampler.ErrPermission},
		{attach.ErrNotJVM, sampler.ErrUnsupported},
		{attach.ErrDisabled, sampler.ErrUnsupported},
		{attach.ErrStarting, sampler.ErrUnsupported},
		{attach.ErrSilent, sampler.ErrUnsupported},
		{attach.ErrUnsafe, sampler.ErrUnsupported},
	} {
		if errors.Is(err, c.is) {
			return process.As(err, c.kind)
		}
	}
	return err
}

// version is a JVM's.
type version struct {
	text  string // "OpenJDK 17.0.15+6"
	major int
}

// exact reports whether samples of CPU time are there: jdk.CPUTimeSample, JEP 509.
func (v version) exact() bool { return v.major >= 25 }

// leastVersion is the first JDK whose chunks can be read while they grow (JEP 349), and whose
// JFR.start takes events.
const leastVersion = 17

func (s *Source) version(ctx context.Context) (version, error) {
	answer, err := s.jvm.Jcmd(ctx, commandTime, "VM.version")
	if err != nil {
		return version{}, fmt.Errorf("ask for the version: %w", err)
	}
	v := parseVersion(answer)
	if v.major < leastVersion {
		return v, fmt.Errorf("%w: its version is %q, want JDK %d or later", sampler.ErrUnsupported, clip(v.text), leastVersion)
	}
	return v, nil
}

// parseVersion reads the answer to VM.version: a line with vendor and build, and a line
// "JDK 17.0.15".
func parseVersion(answer string) (v version) {
	for line := range strings.Lines(answer) {
		line = strings.TrimSpace(line)
		if number, found := strings.CutPrefix(line, "JDK "); found {
			major, _, _ := strings.Cut(number, ".")
			fmt.Sscanf(major, "%d", &v.major)
		}
		if _, build, found := strings.Cut(line, "version "); found && v.text == "" {
			vendor, _, _ := strings.Cut(line, " ")
			v.text = vendor + " " + build
		}
	}
	v.text = clip(v.text)
	return v
}

// clip shortens a text of the JVM.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

// Info describes the source.
func (s *Source) Info() sampler.Info { return s.info }

// Stats returns the counts so far.
func (s *Source) Stats() sampler.Stats {
	return *s.stats.Load()
}

// publish makes the counts visible.
func (s *Source) publish() {
	st := s.folder.stats()
	st.Interval, st.LastChange = time.Duration(s.interval.Load()), time.Duration(s.change.Load())
	st.Loss.Corrupt = s.tail.corrupt
	st.Warning = strings.Join(append(s.tail.warnings(), s.folder.warnings()...), "; ")
	if s.isTimed() && s.event.exact {
		st.Unseen = s.rival.look(time.Now(), st.Loss)
	}
	s.stats.Store(&st)
}

// pollTime is the time between two looks at the chunk, which grows once a second.
const pollTime = 100 * time.Millisecond

// Run reads chunks until the context is done or the JVM has ended, and then to the end of
// the recording.
func (s *Source) Run(ctx context.Context) (sampler.Ending, error) {
	defer s.free()
	s.folder.startClocks()
	defer s.folder.local.Close()
	ending := sampler.Ending{Reason: "stopped"}
	exited, err := s.follow(ctx, s.turn)
	if exited {
		ending = sampler.Ending{Reason: process.ExitReason(s.pid, s.pidfd), Exited: true}
	}
	s.folder.end()
	s.folder.balance()
	s.publish()
	return ending, err
}

// boundAllocations asks the JVM once to pick allocations, where there are too many.
func (s *Source) boundAllocations() {
	if s.event.measure == recording.Alloc && s.folder.rate.isTooHigh() && !s.bounded {
		s.bounded = true
		s.wishes <- s.asked
	}
}

// turn reads what there is of chunks.
func (s *Source) turn() error {
	s.folder.follow(time.Duration(s.interval.Load()))
	if picked := time.Duration(s.picked.Load()); picked != s.folder.picked {
		s.folder.pick(picked)
	}
	err := s.tail.read(s.folder.fold)
	s.folder.flush()
	s.boundAllocations()
	s.publish()
	return err
}
