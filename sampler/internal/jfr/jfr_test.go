package jfr

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	recording "github.com/ccmapd/ccmapd/internal/jvm/jfr"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/queue"
	"github.com/ccmapd/ccmapd/sampler"
)

const patient = time.Minute // for machines that are busy

// killedEnv is the pid of a JVM that the test binary samples until it is killed, in place
// of tests.
const killedEnv = "CCMAPD_TEST_SAMPLE"

func TestMain(m *testing.M) {
	if pid, err := strconv.Atoi(os.Getenv(killedEnv)); err == nil {
		s, err := Open(context.Background(), options(pid))
		if err != nil {
			panic(err)
		}
		fmt.Println("ready")
		s.Run(context.Background())
		return
	}
	jvmtest.Main(m)
}

func options(pid int) Options {
	return Options{PID: pid, Sink: sampler.Sink{Queue: queue.New(queue.Options{}), Names: ccmap.NewNames()}}
}

// javas finds the JVMs of the versions that are tried.
func javas(t *testing.T) []string {
	t.Helper()
	testrun.Full(t, testrun.JDK)
	var all []string
	for _, version := range []string{"17", "25"} {
		found, _ := filepath.Glob("/usr/lib/jvm/*" + version + "*/bin/java")
		if len(found) == 0 {
			t.Logf("there is no JDK %s", version)
			continue
		}
		all = append(all, found[0])
	}
	if len(all) == 0 {
		testrun.Lacks(t, "no JDK is installed: install openjdk-17-jdk-headless")
	}
	return all
}

// The programs: one is busy, and the other rests. Both end with their input.
const spin, wait = "Spin", "Wait"

// startJVM starts a JVM that runs a program, and returns its process.
func startJVM(t *testing.T, java, program string, options ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(java, append(options, "-Djava.io.tmpdir="+t.TempDir(), "-cp", jvmtest.Classes(t), program)...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		in.Close()
		cmd.Process.Kill()
		cmd.Wait()
		os.Remove("/tmp/.java_pid" + strconv.Itoa(cmd.Process.Pid)) // a JVM that is killed leaves it
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the JVM says %q, %v", line, err)
	}
	return cmd
}

// collected is what a session has pushed.
type collected struct {
	weight  int64
	methods map[string]int64 // weights by the innermost method
	stacks  []string         // of Spin's own code, outermost first
}

// drain takes what is in the queue.
func (c *collected) drain(sink sampler.Sink) {
	sink.Queue.Drain(func(s *ccmap.Sample) {
		c.weight += s.Weight
		names := make([]string, 0, len(s.Frames))
		for i := len(s.Frames) - 1; i >= 0; i-- {
			names = append(names, sink.Names.At(s.Frames[i].Method).Name)
		}
		top := names[len(names)-1]
		c.methods[top] += s.Weight
		if top == "Spin.leaf" || top == "Spin.work" { // the JVM moves samples of a loop to its back edge
			c.stacks = append(c.stacks, strings.Join(names, ";"))
		}
	})
}

// sample samples until there are enough samples of the program's own code, and changes the interval
// meanwhile.
func sample(t *testing.T, s *Source) (*collected, sampler.Ending) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*patient)
	defer cancel()
	c := &collected{methods: make(map[string]int64)}
	type result struct {
		ending sampler.Ending
		err    error
	}
	done := make(chan result, 1)
	go func() {
		ending, err := s.Run(ctx)
		done <- result{ending, err}
	}()
	const enough, other = 50, 4 * time.Millisecond
	if err := s.SetInterval(other); err != nil {
		t.Fatal(err)
	}
	for {
		select {
		case <-s.Info().Sink.Queue.Ready():
			if c.drain(s.Info().Sink); len(c.stacks) >= enough && s.Stats().Interval == other {
				cancel()
			}
		case r := <-done:
			if r.err != nil {
				t.Fatal(r.err)
			}
			c.drain(s.Info().Sink)
			return c, r.ending
		}
	}
}

// recordings returns the JVM's list of recordings.
func recordings(t *testing.T, pid int) string {
	t.Helper()
	target, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	list, err := target.Jcmd(t.Context(), patient, "JFR.check")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// A session finds the program's stacks, stands for its CPU time, and leaves no recording.
func TestSession(t *testing.T) {
	for _, java := range javas(t) {
		t.Run(filepath.Base(filepath.Dir(filepath.Dir(java))), func(t *testing.T) {
			jvm := startJVM(t, java, spin)
			s, err := Open(t.Context(), options(jvm.Process.Pid))
			if err != nil {
				t.Fatal(err)
			}
			c, ending := sample(t, s)
			if ending.Exited || ending.Reason != "stopped" {
				t.Errorf("ending %+v", ending)
			}
			for _, stack := range c.stacks {
				if !strings.Contains(stack, "Spin.main;Spin.work") {
					t.Fatalf("a stack is %s", stack)
				}
			}
			st := s.Stats()
			if st.Counts[sampler.Samples] == 0 || st.Loss.Corrupt != 0 || st.Loss.Clock <= 0 {
				t.Errorf("stats %+v", st)
			}
			if apart := st.Loss.Unaccounted.Abs(); apart > st.Loss.Clock/4 {
				t.Errorf("%v of %v is unaccounted; methods %v", st.Loss.Unaccounted, st.Loss.Clock, c.methods)
			}
			t.Logf("%d samples, %v of %v unaccounted, overhead %v, methods %v",
				st.Counts[sampler.Samples], st.Loss.Unaccounted, st.Loss.Clock, st.Overhead.Samples, c.methods)
			if list := recordings(t, jvm.Process.Pid); strings.Contains(list, namePrefix) {
				t.Errorf("a recording is left: %s", list)
			}
		})
	}
}

// A JVM that exits ends the session, with the samples of before.
func TestExit(t *testing.T) {
	jvm := startJVM(t, javas(t)[0], wait)
	s, err := Open(t.Context(), options(jvm.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	go jvm.Process.Kill() // the end of the test waits for it
	ending, err := s.Run(t.Context())
	if err != nil || !ending.Exited {
		t.Errorf("%+v, %v", ending, err)
	}
}

// The next session stops what a session that was killed has left, and another recording goes on.
func TestKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("what runs beside the test is other processes")
	}
	jvm := startJVM(t, javas(t)[0], wait)
	pid := jvm.Process.Pid
	target, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	if _, err := target.Jcmd(t.Context(), patient, "JFR.start name=other settings=none"); err != nil {
		t.Fatal(err)
	}
	killed := exec.Command(os.Args[0])
	killed.Env = append(os.Environ(), killedEnv+"="+strconv.Itoa(pid))
	out, err := killed.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := killed.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	killed.Process.Kill()
	killed.Wait()
	if line != "ready\n" {
		t.Fatal(line, err)
	}
	if list := recordings(t, pid); !strings.Contains(list, namePrefix) {
		t.Fatalf("the killed session has no recording: %s", list)
	}
	s, err := Open(t.Context(), options(pid))
	if err != nil {
		t.Fatal(err)
	}
	if list := recordings(t, pid); strings.Count(list, namePrefix) != 1 {
		t.Errorf("recordings: %s", list)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if list := recordings(t, pid); strings.Contains(list, namePrefix) || !strings.Contains(list, "name=other") {
		t.Errorf("recordings: %s", list)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	if _, err := Open(t.Context(), options(os.Getpid())); !errors.Is(err, ErrNotJVM) || !errors.Is(err, sampler.ErrUnsupported) {
		t.Errorf("this test: %v", err)
	}
	cmd := exec.Command("true")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), options(cmd.Process.Pid)); !errors.Is(err, sampler.ErrNoProcess) {
		t.Errorf("a process that has ended: %v", err)
	}
}

// A JVM that cannot record is refused, and the error says why.
func TestCannotRecord(t *testing.T) {
	jdk := jvmtest.JDKs(t)[0]
	for flag, want := range map[string]string{
		"-XX:+DisableAttachMechanism": "it runs with -XX:+DisableAttachMechanism",
		"-XX:-FlightRecorder":         "Flight Recorder is disabled",
	} {
		t.Run(flag, func(t *testing.T) {
			s, err := Open(t.Context(), options(jdk.Start(t, []string{flag}, "Loop").PID))
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q in it", err, want)
			}
		})
	}
}

func TestParseVersion(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]version{
		"OpenJDK 64-Bit Server VM version 17.0.15+6-Debian-1deb12u1\nJDK 17.0.15\n": {"OpenJDK 17.0.15+6-Debian-1deb12u1", 17},
		"OpenJDK 64-Bit Server VM version 25.0.3+9-LTS\nJDK 25.0.3\n":               {"OpenJDK 25.0.3+9-LTS", 25},
		"JDK 25\n": {"", 25},
		"garbage":  {"", 0},
	} {
		if got := parseVersion(answer); got != want {
			t.Errorf("%q: %+v, want %+v", answer, got, want)
		}
	}
}

// fakeJVM answers commands by a function.
type fakeJVM func(line string) (string, error)

func (f fakeJVM) Jcmd(_ context.Context, _ time.Duration, line string) (string, error) {
	return f(line)
}

// An answer with status 0 is not believed.
func TestStartLies(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"":                       "the JVM says",
		"Could not start.":       "the JVM says",
		"Started recording 1.\n": "",
	} {
		c := newControl(fakeJVM(func(string) (string, error) { return answer, nil }), "")
		err := c.start(t.Context())
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", answer, err)
		}
	}
}

// A JVM that has just started does not know the recorder's commands, and one without a recorder
// never does.
func TestYoung(t *testing.T) {
	t.Parallel()
	unknown := errors.New("Unknown diagnostic command")
	tries := 0
	j := fakeJVM(func(string) (string, error) {
		if tries++; tries < 3 {
			return "", unknown
		}
		return "Started recording 1.", nil
	})
	if err := newControl(newYoungJVM(j, os.Getpid()), "").start(t.Context()); err != nil || tries != 3 {
		t.Errorf("young: %v after %d tries", err, tries)
	}
	tries = 0
	if err := newControl(youngJVM{jvm: j}, "").start(t.Context()); !errors.Is(err, unknown) || !errors.Is(err, sampler.ErrUnsupported) || tries != 1 {
		t.Errorf("grown: %v after %d tries", err, tries)
	}
}

// The interval that was asked for last is set by a new recording, if it is worth one. The one before
// is stopped after that, and the lease is renewed with the same settings.
func TestChange(t *testing.T) {
	t.Parallel()
	lines := make(chan string, 10)
	refused := errors.New("refused")
	refuse := false
	c := newControl(fakeJVM(func(line string) (string, error) {
		if refuse {
			return "", refused
		}
		lines <- line
		return "Started recording 1.", nil
	}), "first")
	made := make(chan time.Duration, 1)
	c.changer = changer{
		interval: 10 * time.Millisecond, settings: event{}.settings,
		made: func(interval, _ time.Duration) { made <- interval },
	}
	c.name = "old"
	read := func() {
		if c.name != "" {
			lines <- "read"
		}
	}

	c.changer.wanted = 14 * time.Millisecond
	if c.changer.isWorth() {
		t.Error("14 ms are worth a change from 10 ms")
	}
	c.changer.wanted = 20 * time.Millisecond
	if !c.changer.isWorth() {
		t.Error("20 ms are not worth a change from 10 ms")
	}
	refuse = true
	if err := c.change(t.Context(), read); !errors.Is(err, refused) || c.settings != "first" || c.changer.interval != 10*time.Millisecond {
		t.Errorf("refused: %v; settings %q, interval %v", err, c.settings, c.changer.interval)
	}
	refuse = false
	wishes := make(chan time.Duration)
	c.changer.wishes, c.changer.last = wishes, time.Time{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.run(ctx, read) }()
	wishes <- 3 * time.Millisecond
	if got := <-made; got != 3*time.Millisecond {
		t.Errorf("the interval is %v", got)
	}
	start, next, stop := <-lines, <-lines, <-lines
	if !strings.Contains(start, "ExecutionSample#period=3ms") || next != "read" || stop != "JFR.stop name=old" {
		t.Errorf("the JVM is told %q, then %q, then %q", start, next, stop)
	}
	wishes <- 6 * time.Millisecond // 5 s later
	wishes <- 4 * time.Millisecond // which is not worth it
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if next := <-lines; next != "read" {
		t.Errorf("at the end: %q", next)
	}
	if end := <-lines; !strings.HasPrefix(end, "JFR.stop name="+c.prefix) || len(lines) > 0 {
		t.Errorf("the JVM is told %q, and %d more", end, len(lines))
	}
}

// A wish replaces an earlier one that was not taken.
func TestSetInterval(t *testing.T) {
	t.Parallel()
	s := &Source{wishes: make(chan time.Duration, 1)}
	for _, d := range []time.Duration{time.Second, 2500 * time.Microsecond, 0} {
		if err := s.SetInterval(d); err != nil {
			t.Error(err)
		}
	}
	if got := <-s.wishes; got != time.Millisecond {
		t.Errorf("the wish is %v", got)
	}
	s.event, s.info.Unit = eventOf(Alloc, version{}), Alloc
	if err := s.SetInterval(time.Second); err == nil {
		t.Error("samples of allocations have an interval")
	}
}

// A sample stands for the longer of two intervals until the flush after their change.
func TestFollow(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	o := options(os.Getpid())
	o.Interval = 10 * ms
	f := newFolder(o, event{})
	f.startClocks()
	defer f.local.Close()
	for _, c := range []struct{ to, during, after time.Duration }{{20 * ms, 20 * ms, 20 * ms}, {5 * ms, 20 * ms, 5 * ms}, {5 * ms, 5 * ms, 5 * ms}} {
		if f.follow(c.to); f.settings.Period != c.during {
			t.Errorf("until %v is in force, the period is %v", c.to, f.settings.Period)
		}
		f.flushed = true
		if f.flush(); f.settings.Period != c.after {
			t.Errorf("%v is in force, and the period is %v", c.to, f.settings.Period)
		}
	}
}

// A chunk that is gone before it is read is time between two that were read, or before the end.
func TestGap(t *testing.T) {
	t.Parallel()
	tail := &tail{}
	h := recording.Header{TicksPerSecond: 2e9}
	for _, c := range []struct {
		end     time.Duration // of the last chunk
		start   time.Duration
		missing time.Duration
	}{{0, 5 * time.Second, 0}, {5 * time.Second, 5*time.Second + longestSeam, 0}, {6 * time.Second, 7 * time.Second, time.Second}} {
		tail.seam, h.StartTicks = seam{end: int64(c.end)}, 2*int64(c.start)
		if tail.noteGap(h); tail.missing != c.missing {
			t.Errorf("a chunk at %v after one that ended at %v: %v are missing, want %v", c.start, c.end, tail.missing, c.missing)
		}
	}
	if w := tail.warnings(); len(w) != 1 || !strings.HasPrefix(w[0], "1s of the recording are missing") {
		t.Errorf("warnings %q", w)
	}
	end := time.Now()
	for _, c := range []struct {
		done    bool
		stopped time.Time
		missing time.Duration
	}{{true, end.Add(-time.Second), 0}, {true, end.Add(shortestEnd), 0}, {false, end.Add(time.Second), 0}, {true, end.Add(time.Second), time.Second}, {true, end.Add(time.Hour), 0}, {true, time.Time{}, 0}} {
		tail.missing, tail.done, tail.seam.since1970 = 0, c.done, end.UnixNano()
		if tail.noteEnd(c.stopped); tail.missing != c.missing {
			t.Errorf("stopped %v after the last chunk, which was read: %t: %v are missing, want %v", c.stopped.Sub(end), c.done, tail.missing, c.missing)
		}
	}
}

func TestParseStat(t *testing.T) {
	t.Parallel()
	const stat = "17 (a) b (c) R 1 1 1 0 -1 4194304 1 2 3 4 71 29 0 0 20 0 1 0 100\n"
	r, user, system, err := parseStat(stat)
	if err != nil || r.name != "a) b (c" || user != 71 || system != 29 {
		t.Errorf("%+v %d %d %v", r, user, system, err)
	}
	for _, bad := range []string{"", "17 (a", "17 (a) R 1", ")(", strings.Replace(stat, " 71 ", " x ", 1)} {
		if _, _, _, err := parseStat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
}

// A sample whose stack does not come is of an unknown method, and is pushed at the end.
func TestWaiting(t *testing.T) {
	t.Parallel()
	o := options(os.Getpid())
	f := newFolder(o, event{recording.Lock, false})
	f.startClocks()
	defer f.local.Close()
	f.waiting = []waiting{{pending: pending{Sample: ccmap.Sample{Weight: 7}}, of: recording.Sample{Key: 1}}}
	if f.resolve(); len(f.waiting) != 1 || len(f.pending) != 0 {
		t.Errorf("%d samples wait, and %d do not", len(f.waiting), len(f.pending))
	}
	f.end()
	pushed := 0
	o.Sink.Queue.Drain(func(s *ccmap.Sample) {
		if pushed++; s.Weight != 7 || o.Sink.Names.At(s.Frames[0].Method).Name != ccmap.UnknownName {
			t.Errorf("pushed %+v", s)
		}
	})
	if pushed != 1 {
		t.Errorf("%d samples are pushed", pushed)
	}
}

// Weights are shared among samples, bounded, and the rest stands for native code.
func TestWeigh(t *testing.T) {
	t.Parallel()
	o := options(os.Getpid())
	o.Interval = 10 * time.Millisecond
	f := newFolder(o, event{})
	for range 2 {
		f.pending = append(f.pending, pending{Sample: ccmap.Sample{OSThread: 7}})
	}
	const ms = int64(time.Millisecond)
	f.weigh([]usage{{7, "main", 35 * ms, 5 * ms}, {8, "GC Thread#0", 9 * ms, 0}, {9, "JFR Thread Samp", ms, 0}, {10, "idle", 500 * ms, 100 * ms}})
	got := make(map[string]int64)
	for _, p := range f.pending {
		if len(p.Frames) == 0 {
			got["java"] += p.Weight
		} else {
			got[o.Sink.Names.At(p.Frames[0].Method).Name] += p.Weight
		}
	}
	want := map[string]int64{"java": 30 * ms, "[kernel]": 105 * ms, "[gc]": 9 * ms, "[native]": 400 * ms}
	if fmt.Sprint(got) != fmt.Sprint(want) || f.figures.Overhead.Samples != time.Millisecond {
		t.Errorf("%v, want %v; overhead %v", got, want, f.figures.Overhead.Samples)
	}
}
