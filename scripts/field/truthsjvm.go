package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign's tables of JVMs: Truths.java does what main.go does, and JFR and async-profiler watch the same runs.

const truthsJava = truthsSource + "/Truths.java"

var truthMethods = javaNames(truthNames)

func javaNames(functions []string) (methods []string) {
	for _, name := range functions {
		methods = append(methods, strings.Replace(name, "main.", "Truths.", 1))
	}
	return methods
}

// javaRun is a run of Truths on a JVM.
type javaRun struct {
	home, classes string
	total         time.Duration // CPU time
	engines       []campaign.Engine
}

// eachJDK calls measure for each JDK that is there, with the folder of its own.
func (f *field) eachJDK(measure func(release, home string) error) error {
	if len(glob(jdks[0].home)) == 0 {
		return errNoJDK
	}
	for _, jdk := range jdks {
		homes := glob(jdk.home)
		if len(homes) == 0 {
			f.Say("no JDK %s at %s", jdk.release, jdk.home)
			continue
		}
		if err := measure(jdk.release, homes[0]); err != nil {
			return fmt.Errorf("JDK %s: %w", jdk.release, err)
		}
	}
	return nil
}

// buildJavaTruths compiles Truths with loops put into its methods, and returns the folder of its class.
func (f *field) buildJavaTruths(ctx context.Context, name string, put map[int]int) (classes string, err error) {
	source, err := os.ReadFile(truthsJava)
	if err != nil {
		return "", err
	}
	text := string(source)
	for method, percent := range put {
		text = putJavaLoop(text, method, percent)
	}
	classes = f.Path("truths-java", name)
	if err := os.MkdirAll(classes, 0o755); err != nil {
		return "", err
	}
	file := filepath.Join(classes, "Truths.java")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		return "", err
	}
	javac := filepath.Join(glob(jdks[0].home)[0], "bin/javac")
	return classes, campaign.Command(exec.CommandContext(ctx, javac, "--release", "17", "-d", classes, file))
}

// putJavaLoop puts a loop like a method's own before it, for so many hundredths of its steps.
func putJavaLoop(source string, method, percent int) string {
	begin := fmt.Sprintf("static int f%d(int n) {\n\t\tint x = 0;\n", method)
	loop := fmt.Sprintf("\t\tfor (int i = 0, m = (int) (n * %dL / 100); i < m; i++) {\n\t\t\tx = x * x + i;\n\t\t}\n", percent)
	return strings.Replace(source, begin, begin+loop, 1)
}

// startTruths starts a run, which is ready to work. Its methods are compiled, and none is inlined: then what a profiler
// says of them does not depend on the few places of compiled code that the JVM can name a method of.
func (f *field) startTruths(ctx context.Context, r javaRun, stdin io.Reader, stdout io.Writer) (*campaign.Process, error) {
	return campaign.Launch{
		Command: []string{filepath.Join(r.home, "bin/java"), "-Xbatch", "-XX:CompileCommand=quiet", "-XX:CompileCommand=dontinline,Truths::f*",
			"-cp", r.classes, "Truths", commas(ramp), strconv.FormatInt(r.total.Milliseconds(), 10)},
		Ready: isReady, Stdin: stdin, Stdout: stdout,
	}.Start(ctx)
}

// watchJavaTruths runs the program, and returns what each witness says: ccmapd first, JFR, and async-profiler where
// there is a build of it.
func (f *field) watchJavaTruths(ctx context.Context, r javaRun) ([]witnessed, error) {
	said, stdout, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	stdin, tell := io.Pipe()
	p, err := f.startTruths(ctx, r, stdin, stdout)
	stdout.Close()
	if err != nil {
		return nil, err
	}
	defer func() {
		tell.Close() // else Stop would never return
		p.Stop()
	}()
	recorders, err := f.recorders()
	if err != nil {
		return nil, err
	}
	// The last one begins last and ends first: JFR takes CPU time of the JVM for both.
	work := func(ctx context.Context) error { return f.watchWork(ctx, p, r.engines, tell, said) }
	for _, recorder := range slices.Backward(recorders) {
		inner := work
		work = func(ctx context.Context) error { return recorder.record(ctx, p.PID(), f.recording(recorder), inner) }
	}
	if err := work(ctx); err != nil {
		return nil, err
	}
	return f.javaTestimonies(r.engines, recorders)
}

// watchWork attaches the engines, has the program work, and ends them before others write their recordings.
func (f *field) watchWork(ctx context.Context, p *campaign.Process, engines []campaign.Engine, tell io.Writer, said io.Reader) error {
	sessions, err := f.attachEngines(ctx, p.PID(), engines)
	if err != nil {
		return err
	}
	fmt.Fprintln(tell)
	lines := bufio.NewScanner(said)
	for lines.Text() != "done" { // the JVM itself has something to say, too
		if !lines.Scan() {
			return errors.Join(errors.New("the JVM has ended before its work"), ctx.Err(), p.Wait())
		}
	}
	for _, s := range sessions {
		if _, err := s.End(); err != nil {
			return err
		}
	}
	return nil
}

// recorder is a profiler within the JVM, which records samples into a file while do runs.
type recorder struct {
	name, file string
	record     func(ctx context.Context, pid int, file string, do func(context.Context) error) error
}

func (f *field) recording(r recorder) string { return f.Path(r.file) }

func (f *field) recorders() ([]recorder, error) {
	all := []recorder{{"JFR", "truths-own.jfr", recordJFR}}
	async, err := f.asyncProfiler()
	if async != "" {
		all = append(all, recorder{asyncName, "truths-async.jfr", func(ctx context.Context, pid int, file string, do func(context.Context) error) error {
			return async.recordEvery(ctx, pid, time.Millisecond, file, do)
		}})
	}
	return all, err
}

// recordJFR has a JVM record its own samples, every 10 ms: it takes no shorter interval.
func recordJFR(ctx context.Context, pid int, file string, do func(context.Context) error) error {
	jvm, err := attach.Open(pid)
	if err != nil {
		return err
	}
	defer jvm.Close()
	const patience = 30 * time.Second
	command := func(text string) error {
		answer, err := jvm.Command(ctx, patience, "jcmd", text)
		if err != nil {
			return fmt.Errorf("%s: %w: %s", text, err, answer)
		}
		return nil
	}
	if err := command("JFR.start name=truths settings=profile jdk.ExecutionSample#period=10ms"); err != nil {
		return err
	}
	return errors.Join(do(ctx), command("JFR.stop name=truths filename="+file))
}

// javaTestimonies reads what all witnesses of a run have written.
func (f *field) javaTestimonies(engines []campaign.Engine, recorders []recorder) ([]witnessed, error) {
	var all []witnessed
	add := func(by, file string) error {
		s, err := campaign.ReadProfile(file)
		if err == nil {
			all = append(all, witnessed{by, splitOf(s, truthMethods)})
		}
		return err
	}
	for _, e := range engines {
		if err := add("ccmapd, "+string(e), f.engineFile(e)); err != nil {
			return nil, err
		}
	}
	for _, r := range recorders {
		if err := add(r.name, f.recording(r)); err != nil {
			return nil, fmt.Errorf("read the recording of %s: %w", r.name, err)
		}
	}
	return all, nil
}

// javaSharesTable compares shares of a JVM's methods with their truth.
func javaSharesTable(ctx context.Context, f *field, t *report.Table) (missed error) {
	classes, err := f.buildJavaTruths(ctx, "plain", nil)
	if err != nil {
		return err
	}
	truth := truthOf(truthMethods, ramp)
	err = f.eachJDK(func(release, home string) error {
		all, err := f.watchJavaTruths(ctx, javaRun{home, classes, of(f, 2*time.Second, 16*time.Second), []campaign.Engine{campaign.BPF, campaign.Perf}})
		if err != nil {
			return err
		}
		for _, w := range all {
			name, off := w.farthest(truth)
			reach := withinPoints(w.samples)
			t.Row(release, w.by, report.Count(float64(w.samples)), "`"+name+"`", report.Number(off, 2), "± "+report.Number(reach, 2))
			missed = errors.Join(missed, miss(w.by, max(off, -off) > f.allowed(reach), "JDK %s: %s is off by %.2f points of %.2f", release, name, off, reach))
		}
		return nil
	})
	return errors.Join(missed, err)
}

// javaSlowdownTable slows methods, and compares their shares with foretold ones.
func javaSlowdownTable(ctx context.Context, f *field, t *report.Table) (missed error) {
	plain, err := f.buildJavaTruths(ctx, "plain", nil)
	if err != nil {
		return err
	}
	err = f.eachJDK(func(release, home string) error {
		follows, order := make(map[string][]follow), []string(nil)
		for i, put := range slowdowns[:of(f, 1, len(slowdowns))] {
			slow, err := f.buildJavaTruths(ctx, fmt.Sprint("slow", i), put)
			if err != nil {
				return err
			}
			run := javaRun{home, plain, of(f, 2*time.Second, 6*time.Second), []campaign.Engine{campaign.BPF}}
			before, err := f.watchJavaTruths(ctx, run)
			if err != nil {
				return err
			}
			run.classes = slow
			since, err := f.watchJavaTruths(ctx, run)
			if err != nil {
				return err
			}
			order = addFollows(follows, before, since, factorsOf(truthMethods, put))
		}
		for _, by := range order {
			missed = errors.Join(missed, f.slowdownRow(t, by, follows[by], release))
		}
		return nil
	})
	return errors.Join(missed, err)
}
