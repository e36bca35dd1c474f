package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign jvm attaches to foreign programs on HotSpot as they warm up, and asks how many
// stacks are whole, how soon the first one comes, and whether all CPU time is in the samples.
const jvmPortion report.Portion = "scripts/field, jvm"

//go:embed testdata/jvm/*.java
var jvmSources embed.FS

// jvmPrograms are the main classes, each with the archives that it needs.
var jvmPrograms = []struct {
	class, what string
	archives    []string // patterns of paths
	busyToo     bool     // jvmpeer watches it on a busy machine, too
}{
	{"DB", "H2, two connections", []string{"/usr/share/java/h2.jar"}, false},
	{"Script", "Rhino, compiled and interpreted", []string{"/usr/share/java/js.jar"}, false},
	{"Web", "Tomcat, a JSP page for four clients", []string{"/usr/share/tomcat10/lib/*.jar", "/usr/share/java/tomcat10-juli.jar", "/usr/share/java/eclipse-jdt-core.jar"}, false},
	{"Compile", "javac in the process", nil, false},
	{"Echo", "NIO, a server and a client that wake each other", nil, false},
	{"Netty", "Netty, two event loops and four clients", []string{"/usr/share/java/netty-all.jar", "/usr/share/java/netty-[bchrt]*.jar"}, true},
	{"Zoo", "ZooKeeper, a server and three clients", []string{"/usr/share/java/zookeeper.jar", "/usr/share/java/zookeeper-jute.jar", "/usr/share/java/slf4j-api.jar",
		"/usr/share/java/slf4j-nop.jar", "/usr/share/java/snappy-java.jar", "/usr/share/java/metrics-core.jar", "/usr/share/java/commons-cli.jar"}, true},
	{"Ciphers", "Bouncy Castle, CBC with three ciphers", []string{"/usr/share/java/bcprov.jar"}, true},
}

// jdks are where Java is looked for, by release.
var jdks = []struct{ release, home string }{
	{"17", "/usr/lib/jvm/java-17-openjdk-amd64"},
	{"25", "/usr/lib/jvm/*25*"},
}

// jvmRow is what a program's samples said.
type jvmRow struct {
	program, release, engine string

	samples, rooted  int
	java, javaRooted int           // samples with a Java method on top
	guessed          int           // samples with [native]: Java was found without the way that led there
	unknown          int           // samples with a frame in no file and no generated code that is known
	opened           time.Time     // before attaching
	first            time.Duration // from then to the first sample
	taken            []weighed
	weights, used    time.Duration // of the samples of a window; by the process's clock
	lost             uint64        // samples that were not taken, and have no weight
}

// weighed is a sample's time, CLOCK_MONOTONIC, and its weight.
type weighed struct {
	at     int64 // ns
	weight time.Duration
}

func runJVM(ctx context.Context, f *field) error {
	began := time.Now()
	var rows []jvmRow
	err := f.eachJVM(ctx, func(program int, release, home string) error {
		for _, engine := range []string{"bpf", "perf"} {
			row, err := f.measureJVM(ctx, home, program, engine)
			if err != nil {
				return fmt.Errorf("by %s: %w", engine, err)
			}
			row.release = release
			rows = append(rows, row)
			f.Say("%s", strings.Join(row.cells(), ", "))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return f.Write(jvmPortion, jvmReport(rows, f.window, began))
}

var errNoJDK = errors.New("no JDK 17: apt-get install openjdk-17-jdk-headless libh2-java librhino-java tomcat10 libnetty-java libzookeeper-java libbcprov-java")

// eachJVM compiles the programs, and calls measure for each that is wanted on each JDK.
func (f *field) eachJVM(ctx context.Context, measure func(program int, release, home string) error) error {
	home := glob(jdks[0].home)
	if len(home) == 0 {
		return errNoJDK
	}
	if err := f.compileJava(ctx, home[0]); err != nil {
		return err
	}
	for _, jdk := range jdks {
		homes := glob(jdk.home)
		if len(homes) == 0 {
			f.Say("no JDK %s at %s", jdk.release, jdk.home)
			continue
		}
		for i, p := range jvmPrograms {
			if !f.Wants(strings.ToLower(p.class)) {
				continue
			}
			if err := measure(i, jdk.release, homes[0]); err != nil {
				return fmt.Errorf("%s on %s: %w", p.class, jdk.release, err)
			}
		}
	}
	return nil
}

func glob(pattern string) []string {
	paths, _ := filepath.Glob(pattern) // the patterns are well-formed
	return paths
}

// classPath returns the archives that a program needs, and the folder of the classes.
func (f *field) classPath(archives []string) string {
	all := []string{f.Path("jvm")}
	for _, pattern := range archives {
		all = append(all, glob(pattern)...)
	}
	return strings.Join(all, ":")
}

// compileJava compiles the programs.
func (f *field) compileJava(ctx context.Context, home string) error {
	var files, archives []string
	if err := os.MkdirAll(f.Path("jvm"), 0o755); err != nil {
		return err
	}
	for _, p := range jvmPrograms {
		archives = append(archives, p.archives...)
	}
	names, err := fs.Glob(jvmSources, "testdata/jvm/*.java")
	if err != nil {
		return err
	}
	for _, name := range names {
		text, err := fs.ReadFile(jvmSources, name)
		if err != nil {
			return err
		}
		file := f.Path("jvm", filepath.Base(name))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return err
		}
		files = append(files, file)
	}
	arguments := append([]string{"--release", "17", "-d", f.Path("jvm"), "-cp", f.classPath(archives)}, files...)
	return campaign.Command(exec.CommandContext(ctx, filepath.Join(home, "bin/javac"), arguments...))
}

// jvmEngines are the engines, by name.
var jvmEngines = map[string]campaign.Engine{"bpf": campaign.BPF, "perf": campaign.Perf}

// startJVM starts a program. It writes its counts to out; nil: nowhere.
func (f *field) startJVM(ctx context.Context, home string, program int, out io.Writer) (*campaign.Process, error) {
	p := jvmPrograms[program]
	return campaign.Launch{
		Command: []string{filepath.Join(home, "bin/java"), "-Xmx512m", "-cp", f.classPath(p.archives), p.class},
		Ready:   isReady, Stdout: out,
	}.Start(ctx)
}

// measureJVM runs a program and samples it from its first second on.
func (f *field) measureJVM(ctx context.Context, home string, program int, engine string) (jvmRow, error) {
	row := jvmRow{program: jvmPrograms[program].what, engine: engine}
	running, err := f.startJVM(ctx, home, program, nil)
	if err != nil {
		return row, err
	}
	defer running.Stop()
	window := f.window
	if f.Quick {
		window = 3 * time.Second
	}
	open := jvmEngines[engine]
	row.opened = time.Now()
	var from, to int64
	err = open.Sample(ctx, sampler.ProcessOptions{PID: running.PID()}, func(ctx context.Context, source campaign.Source) error {
		from = perfevent.Monotonic() // attaching and detaching have samples, too
		before, err1 := running.CPU()
		select {
		case <-ctx.Done():
		case <-time.After(window):
		}
		after, err2 := running.CPU()
		to = perfevent.Monotonic()
		loss := source.Stats().Loss
		row.used, row.lost = after-before, loss.Source+loss.Throttled+loss.Corrupt
		return errors.Join(err1, err2)
	}, row.add)
	for _, s := range row.taken {
		if s.at >= from && s.at < to {
			row.weights += s.weight
		}
	}
	return row, err
}

// add counts a sample.
func (r *jvmRow) add(s *ccmap.Sample, names *ccmap.Names) {
	if r.samples == 0 {
		r.first = time.Since(r.opened)
	}
	r.samples++
	r.taken = append(r.taken, weighed{s.Time, time.Duration(s.Weight)})
	frames := s.Frames
	if len(frames) > 0 && names.At(frames[0].Method).Name == ccmap.KernelName {
		frames = frames[1:]
	}
	java := len(frames) > 0 && names.At(frames[0].Method).Coordinate == ccmap.CoordinateBytecode
	if java {
		r.java++
	}
	has := func(name string) bool {
		return slices.ContainsFunc(frames, func(f ccmap.Frame) bool { return names.At(f.Method) == ccmap.Method{Name: name} })
	}
	if has("[native]") {
		r.guessed++
	}
	if has(ccmap.UnknownName) {
		r.unknown++
	}
	if s.Truncated {
		return
	}
	r.rooted++
	if java {
		r.javaRooted++
	}
}

func (r *jvmRow) cells() []string {
	return []string{
		r.program + " on " + r.release, r.engine, report.Count(float64(r.samples)),
		report.Number(100*float64(r.javaRooted)/float64(r.java), 2), report.Number(100*float64(r.rooted)/float64(r.samples), 2),
		report.Percent(100 * float64(r.java) / float64(r.samples)), report.Number(100*float64(r.guessed)/float64(r.samples), 2), report.Number(100*float64(r.unknown)/float64(r.samples), 2),
		report.Number(float64(r.first.Microseconds())/1000, 0),
		report.Number(100*(float64(r.weights)/float64(r.used)-1), 1), report.Number(float64(r.lost), 0),
	}
}

func jvmReport(rows []jvmRow, window time.Duration, began time.Time) string {
	t := report.Table{Head: []string{
		"program", "engine", "samples", "whole, Java on top, %", "whole, all, %", "Java on top, %", "`[native]`, %", "a frame unknown, %", "attach to first sample, ms", "time in samples off the clock, %", "lost",
	}}
	for _, r := range rows {
		t.Row(r.cells()...)
	}
	return fmt.Sprintf("%s All runs together took %v; each was sampled every 10 ms for %v, from its warm-up on.\n\n%s",
		report.Measured(began), after(began), window, t.String())
}
