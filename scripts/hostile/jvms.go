package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// jvmsCampaign kills ccmapd while it samples JVMs, and makes the JVM begin new chunks under a
// session. Engine jfr works inside the JVM: what it has begun there must end by itself.
var jvmsCampaign = kind{
	name:  "jvms",
	about: "kill ccmapd at random times while it samples JVMs, and see what is left in them",
	example: `  go -C scripts run ./hostile jvms              300 kills and 200 chunks, about ten minutes
  go -C scripts run ./hostile jvms -quick       a few, of JDK 17`,
	head: []string{"attack", "rounds", "answers", "wrong", "recordings left", "files left",
		"breakpoints left", "threads stopped or traced", "result"},
	run: runJVMs,
}

// jvmAttack is one way to attack.
type jvmAttack struct {
	name   string
	rounds int
	quick  int
	run    func(*jvmAttacked, context.Context, int) (string, error)
}

func jvmAttacks() []jvmAttack {
	return []jvmAttack{
		{"SIGKILL of ccmapd by engine jfr", 100, 3, (*jvmAttacked).killsJFR},
		{"SIGKILL of ccmapd by engine perf", 25, 2, (*jvmAttacked).killsPerf},
		{"SIGKILL of ccmapd by engine bpf", 25, 2, (*jvmAttacked).killsBPF},
		{"new chunks under a session", 100, 10, (*jvmAttacked).rotations},
	}
}

// jvmAttacked is a JVM, and what was done to it.
type jvmAttacked struct {
	*hostile
	folder   string // where ccmapd writes, and the JVM
	home     string // of the JDK
	computer *computer
	target   *attach.Target
	first    atRest

	sampled     int // kills of a ccmapd that had begun to sample
	recordings  int // left behind
	breakpoints int
	held        int
}

//go:embed testdata/jvm/Computer.java
var computerJava []byte

// jvmHomes are where JDKs are looked for, by release.
var jvmHomes = []struct{ release, pattern string }{
	{"17", "/usr/lib/jvm/java-17-openjdk-amd64"},
	{"25", "/usr/lib/jvm/*25*"},
}

func runJVMs(ctx context.Context, h *hostile) error {
	var failed error
	for _, jdk := range jvmHomes {
		java, _ := filepath.Glob(filepath.Join(jdk.pattern, "bin/java"))
		if len(java) == 0 {
			h.Say("there is no JDK %s", jdk.release)
			continue
		}
		home := filepath.Dir(filepath.Dir(java[0]))
		classes, err := h.compileComputer(ctx, home)
		if err != nil {
			return errors.Join(failed, err)
		}
		for _, a := range jvmAttacks() {
			if !h.wants(a.name, a.name+", JDK "+jdk.release) {
				continue
			}
			if err := h.attackJVM(ctx, a, jdk.release, home, classes); err != nil {
				failed = errors.Join(failed, fmt.Errorf("%s, JDK %s: %w", a.name, jdk.release, err))
			}
		}
		if h.Quick {
			break
		}
	}
	return failed
}

// attackJVM runs all rounds of an attack on one JVM, and adds its row.
func (h *hostile) attackJVM(ctx context.Context, a jvmAttack, release, home, classes string) error {
	if h.Quick {
		a.rounds = a.quick
	}
	folder, err := os.MkdirTemp(h.Work, "jvms-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	j := &jvmAttacked{hostile: h, folder: folder, home: home}
	if err := j.begin(ctx, classes); err != nil {
		return err
	}
	defer j.end()
	r := row{}
	result, err := a.run(j, ctx, a.rounds)
	if err != nil {
		r.miss("%v", err)
	}
	if err := j.inspect(ctx); err != nil {
		return err
	}
	j.cells(&r, a, release, result)
	h.add(r)
	return nil
}

// compileComputer compiles the program of the JVM, and returns the folder of its classes.
func (h *hostile) compileComputer(ctx context.Context, home string) (string, error) {
	folder := h.Path("jvms-classes")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return "", err
	}
	source := filepath.Join(folder, "Computer.java")
	if err := os.WriteFile(source, computerJava, 0o644); err != nil {
		return "", err
	}
	if out, err := exec.CommandContext(ctx, filepath.Join(home, "bin/javac"), "-d", folder, source).CombinedOutput(); err != nil {
		return "", fmt.Errorf("compile Computer.java: %w\n%s", err, out)
	}
	return folder, nil
}

// begin starts the JVM, with the program in a folder. Its files go into the folder of the attack.
func (j *jvmAttacked) begin(ctx context.Context, classes string) error {
	var err error
	j.computer, err = j.computeBy(ctx, []string{
		"env", "-C", j.folder, filepath.Join(j.home, "bin/java"), "-Xmx256m", "-Djava.io.tmpdir=" + j.folder, "-cp", classes, "Computer",
	})
	if err != nil {
		return err
	}
	if j.target, err = attach.Open(j.computer.pid()); err == nil {
		j.first, err = j.computer.ask()
	}
	if err != nil {
		j.end()
	}
	return err
}

// end ends the JVM, which leaves the socket of its attach mechanism if it is killed.
func (j *jvmAttacked) end() {
	if j.target != nil {
		j.target.Close()
	}
	j.computer.stop()
	os.Remove(j.socket())
}

func (j *jvmAttacked) socket() string { return "/tmp/.java_pid" + strconv.Itoa(j.computer.pid()) }

// longestCommand bounds a command to the JVM.
const longestCommand = time.Minute

func (j *jvmAttacked) jcmd(ctx context.Context, line string) (string, error) {
	answer, err := j.target.Jcmd(ctx, longestCommand, line)
	if err != nil {
		return "", fmt.Errorf("%s: %w", line, err)
	}
	return answer, nil
}

// ours returns how many recordings of ccmapd the JVM has.
func (j *jvmAttacked) ours(ctx context.Context) (int, error) {
	list, err := j.jcmd(ctx, "JFR.check")
	return strings.Count(list, "name=ccmapd-"), err
}

// jvmsFile is the profile of the sessions.
const jvmsFile = "jvms.json"

func (j *jvmAttacked) session(ctx context.Context, flags ...string) (*session, error) {
	return j.attach(ctx, "", j.computer.pid(), filepath.Join(j.folder, jvmsFile), flags...)
}

// killWindow is how long a ccmapd lives at most: it attaches, samples, ends and writes in that time.
const killWindow = 2 * time.Second

// kills kills a ccmapd again and again. Now and then the JVM's socket is gone before.
func (j *jvmAttacked) kills(ctx context.Context, engine string, rounds int) error {
	const socketEvery = 5
	for i := range rounds {
		if i%socketEvery == 0 {
			os.Remove(j.socket())
		}
		s, err := j.session(ctx, "--engine", engine, "-d", (killWindow / 2).String())
		if err != nil {
			return err
		}
		time.Sleep(time.Duration(j.Int64N(int64(killWindow))))
		s.kill()
		if strings.Contains(s.says(), "Sampling ") {
			j.sampled++
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if engine != "jfr" {
			if err := j.lookForTraces(); err != nil {
				return err
			}
		}
	}
	return nil
}

// lookForTraces counts what perf events have left.
func (j *jvmAttacked) lookForTraces() error {
	pid := j.computer.pid()
	j.held += lasting(func() int { return held(pid) })
	var failed error
	j.breakpoints += lasting(func() int {
		var n int
		n, failed = breakpointsBeyond(pid)
		return n
	})
	return failed
}

func (j *jvmAttacked) killsPerf(ctx context.Context, rounds int) (string, error) {
	return j.killsOutside(ctx, "perf", rounds)
}

func (j *jvmAttacked) killsBPF(ctx context.Context, rounds int) (string, error) {
	return j.killsOutside(ctx, "bpf", rounds)
}

func (j *jvmAttacked) killsOutside(ctx context.Context, engine string, rounds int) (string, error) {
	err := j.kills(ctx, engine, rounds)
	return fmt.Sprintf("%d killed as they sampled", j.sampled), err
}

// longestLease is how long a recording may stay that nobody renews: a minute, and the time that the JVM
// takes to notice.
const longestLease = time.Minute + 10*time.Second

// killsJFR kills a last ccmapd as it samples, and waits until the JVM has ended its recording by
// itself.
func (j *jvmAttacked) killsJFR(ctx context.Context, rounds int) (string, error) {
	if err := j.kills(ctx, "jfr", rounds-1); err != nil {
		return "", err
	}
	s, err := j.session(ctx, "--engine", "jfr")
	if err != nil {
		return "", err
	}
	<-s.samples
	s.kill()
	j.sampled++
	result := fmt.Sprintf("%d killed as they sampled", j.sampled)
	if j.Quick { // the session of inspect stops them
		return result, nil
	}
	began := time.Now()
	left, err := j.ours(ctx)
	if err == nil && left == 0 {
		return result, errors.New("the last session had no recording when it was killed")
	}
	for ; err == nil && left > 0; left, err = j.ours(ctx) {
		if time.Since(began) > longestLease {
			return result, fmt.Errorf("%d recordings are left after %v", left, longestLease)
		}
		time.Sleep(time.Second)
	}
	chunks, _ := filepath.Glob(filepath.Join(j.folder, "*", "*.jfr"))
	return fmt.Sprintf("%s; no recording, and %d files of recordings, %s after the last", result, len(chunks), report.Seconds(time.Since(began).Seconds())), err
}

// enterMethod is where the JVM's threads wait for each other.
const enterMethod = "Computer.enter"

// rotations makes the JVM begin chunks while a session reads its waits. The session must have all
// that the JDK's own reader finds in another recording.
func (j *jvmAttacked) rotations(ctx context.Context, rounds int) (string, error) {
	const longestPause = 250 * time.Millisecond
	if _, err := j.jcmd(ctx, "JFR.start name=other settings=none"); err != nil {
		return "", err
	}
	s, err := j.session(ctx, "--engine", "jfr", "--event", "lock", "-i", "1ms")
	if err != nil {
		return "", err
	}
	defer s.kill()
	<-s.samples
	for i := range rounds { // a start and a stop begin a chunk each
		line := "JFR.start name=chunk settings=none"
		if i%2 == 1 {
			line = "JFR.stop name=chunk"
		}
		if _, err := j.jcmd(ctx, line); err != nil {
			return "", err
		}
		time.Sleep(time.Duration(j.Int64N(int64(longestPause))))
	}
	s.signal(unix.SIGINT)
	if _, err := s.end(); err != nil {
		return "", err
	}
	return j.compareWaits(ctx, s)
}

// waits are those of the JVM's threads for each other. JDK 17 writes a few events without their stack
// as it begins a chunk.
type waits struct{ whole, stackless int64 }

func (w waits) String() string {
	return fmt.Sprintf("%s waits, %d more without a stack", report.Count(float64(w.whole)), w.stackless)
}

// compareWaits compares the session's waits with those of the other recording.
func (j *jvmAttacked) compareWaits(ctx context.Context, s *session) (string, error) {
	m, _, err := export.ReadFile(s.file, export.ReadOptions{})
	if err != nil {
		return "", err
	}
	var ours waits
	snapshot := m.Snapshot()
	for method := range snapshot.Methods() {
		switch method.Method().Name {
		case enterMethod:
			ours.whole += method.Self().Samples
		case ccmap.UnknownName: // of any thread
			ours.stackless += method.Self().Samples
		}
	}
	theirs, err := j.recordedWaits(ctx)
	if err != nil {
		return "", err
	}
	missing := slices.ContainsFunc(snapshot.Meta().Comments, func(c string) bool { return strings.Contains(c, "of the recording are missing") })
	result := fmt.Sprintf("%s; by the JDK's own reader %s", ours, theirs)
	switch {
	case theirs.whole == 0:
		return result, errors.New("nobody waited")
	case ours.whole > theirs.whole:
		return result, fmt.Errorf("%d waits were counted twice", ours.whole-theirs.whole)
	case ours.whole < theirs.whole || ours.stackless < theirs.stackless:
		return result, fmt.Errorf("waits were lost; the session says so: %t", missing)
	}
	return result, nil
}

var (
	waitLine  = regexp.MustCompile(`(?m)^ *eventThread = "contender `)
	enterLine = regexp.MustCompile(`(?m)^ *` + regexp.QuoteMeta(enterMethod) + `\(\)`)
)

// recordedWaits counts the waits of the other recording by the JDK's own reader.
func (j *jvmAttacked) recordedWaits(ctx context.Context) (waits, error) {
	file := filepath.Join(j.folder, "other.jfr")
	if _, err := j.jcmd(ctx, "JFR.dump name=other filename="+file); err != nil {
		return waits{}, err
	}
	defer os.Remove(file)
	out, err := exec.CommandContext(ctx, filepath.Join(j.home, "bin/jfr"), "print", "--events", "jdk.JavaMonitorEnter", "--stack-depth", "1", file).Output()
	if err != nil {
		return waits{}, fmt.Errorf("jfr print: %w", err)
	}
	_, err = j.jcmd(ctx, "JFR.stop name=other")
	whole := len(enterLine.FindAll(out, -1))
	return waits{int64(whole), int64(len(waitLine.FindAll(out, -1)) - whole)}, err
}

// inspect runs an undisturbed session, which cleans up what killed ones may have left, and then
// looks at the JVM.
func (j *jvmAttacked) inspect(ctx context.Context) error {
	s, err := j.session(ctx, "--engine", "jfr")
	if err != nil {
		return err
	}
	<-s.samples
	s.signal(unix.SIGINT)
	if _, err := s.end(); err != nil {
		return err
	}
	if j.recordings, err = j.ours(ctx); err != nil {
		return err
	}
	if err := j.lookForTraces(); err != nil {
		return err
	}
	_, err = j.computer.ask()
	return err
}

// repository is the name of the folder where the JVM has its recordings, by time and pid. It stays
// until the JVM ends.
var repository = regexp.MustCompile(`^[0-9]{4}(_[0-9]{2}){5}_[0-9]+$`)

// files returns the files that are left: of ccmapd, of recordings, and of attaching.
func (j *jvmAttacked) files() []string {
	var left []string
	for _, pattern := range []string{
		filepath.Join(j.folder, "*"), filepath.Join(j.folder, "*", "*.jfr"),
		fmt.Sprintf("/tmp/.attach_pid%d", j.computer.pid()),
	} {
		files, _ := filepath.Glob(pattern)
		left = append(left, files...)
	}
	return slices.DeleteFunc(left, func(file string) bool {
		name := filepath.Base(file)
		return name == jvmsFile || repository.MatchString(name)
	})
}

// cells fills in the row, and its misses: no trace may be left, and no answer wrong.
func (j *jvmAttacked) cells(r *row, a jvmAttack, release, result string) {
	files := j.files()
	r.cells = []string{a.name + ", JDK " + release, strconv.Itoa(a.rounds), report.Count(float64(j.computer.last.Answers - j.first.Answers))}
	for _, l := range []struct {
		what string
		n    int
	}{
		{"wrong answers", int(j.computer.last.Wrong)}, {"recordings", j.recordings}, {"files", len(files)},
		{"breakpoints", j.breakpoints}, {"threads stopped or traced", j.held},
	} {
		r.cells = append(r.cells, strconv.Itoa(l.n))
		if l.n > 0 {
			r.miss("%d %s, want none %s", l.n, l.what, strings.Join(files, " "))
		}
	}
	if j.computer.last.Answers == j.first.Answers {
		r.miss("the JVM computes no more")
	}
	r.cells = append(r.cells, result)
}
