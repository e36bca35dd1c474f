package jfr

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/hotspot/attach"
	"golang.org/x/sys/unix"
)

// Engine is the name of the engine in profiles.
const Engine = "jfr"

// ErrNotJVM says that the target is no HotSpot JVM, so that this engine is not for it.
var ErrNotJVM = attach.ErrNotJVM

// Options of a Source.
type Options = sampler.ProcessOptions

// Source samples one JVM.
//
//	pid … control   set by Open
//	folder          Open, then the goroutine of Run
//	stats           Run writes, any goroutine reads
type Source struct {
	pid     int
	pidfd   int
	info    sampler.Info
	jvm     *attach.Target
	control *control
	tail    *tail
	folder  *folder
	stats   atomic.Pointer[sampler.Stats]
}

var _ sampler.Source = (*Source)(nil)

// Open starts a recording in a running JVM. It takes about a second, and several where the
// machine is busy. Errors wrap those of package sampler.
func Open(ctx context.Context, o Options) (*Source, error) {
	o, err := o.WithDefaults()
	if err != nil {
		return nil, err
	}
	s := &Source{pid: o.PID, pidfd: -1}
	if err := s.open(ctx, o); err != nil {
		return nil, fmt.Errorf("attach to process %d: %w", o.PID, classify(errors.Join(err, s.Close())))
	}
	return s, nil
}

func (s *Source) open(ctx context.Context, o Options) (err error) {
	if s.pidfd, err = process.Open(o.PID); err != nil {
		return err
	}
	if s.jvm, err = attach.Open(o.PID); err != nil {
		return err
	}
	version, err := s.version(ctx)
	if err != nil {
		return err
	}
	s.info = sampler.Info{Target: process.Describe(o.PID), Engine: Engine, Sink: o.Sink}
	s.info.Target.Runtime = version.text
	s.control = newControl(s.jvm, version.exact(), o)
	s.tail = &tail{pid: o.PID}
	if err := s.control.begin(ctx); err != nil {
		return err
	}
	if err := s.tail.await(ctx); err != nil {
		return err
	}
	s.folder = newFolder(o, version.exact())
	s.publish()
	return nil
}

// classify makes errors in attaching those of package sampler.
func classify(err error) error {
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
	st.Interval, st.Loss.Corrupt = s.control.interval, s.tail.corrupt
	s.stats.Store(&st)
}

// Close stops the recording of a Source on which Run is not called.
func (s *Source) Close() error {
	var err error
	if s.control != nil {
		err = s.control.end()
	}
	if s.tail != nil {
		s.tail.close()
	}
	if s.jvm != nil {
		s.jvm.Close()
	}
	if s.pidfd >= 0 {
		unix.Close(s.pidfd)
	}
	s.pidfd, s.jvm, s.tail, s.control = -1, nil, nil, nil
	return err
}

// pollTime is the time between two looks at the chunk, which grows once a second.
const pollTime = 100 * time.Millisecond

// Run reads chunks until the context is done or the JVM has ended, and then to the end of
// the recording.
func (s *Source) Run(ctx context.Context) (sampler.Ending, error) {
	s.folder.begin()
	defer s.folder.local.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- s.control.run(ctx, s.tail.Chunks) }()
	ending, err := s.read(stopped, cancel)
	s.folder.balance()
	s.publish()
	s.tail.close()
	s.jvm.Close()
	unix.Close(s.pidfd)
	return ending, err
}

// read reads until the recording has stopped. When the JVM ends, it gives up the
// conversation.
func (s *Source) read(stopped <-chan error, giveUp func()) (sampler.Ending, error) {
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	for {
		select {
		case err := <-stopped: // the chunk is complete
			return sampler.Ending{Reason: "stopped"}, errors.Join(err, s.turn())
		case <-tick.C:
		}
		if process.Ended(s.pidfd) {
			giveUp()
			<-stopped
			return sampler.Ending{Reason: process.ExitReason(s.pid, s.pidfd), Exited: true}, s.turn()
		}
		if err := s.turn(); err != nil {
			giveUp()
			return sampler.Ending{}, errors.Join(err, <-stopped)
		}
	}
}

// turn reads what there is of chunks.
func (s *Source) turn() error {
	err := s.tail.read(s.folder.fold)
	s.folder.flush()
	s.publish()
	if err != nil && process.Ended(s.pidfd) { // whose files are gone
		return nil
	}
	return err
}
