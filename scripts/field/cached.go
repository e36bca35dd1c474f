package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign cached starts programs on HotSpot cold, and with what an earlier run knows ('run --cached'), in turns,
// and asks how soon they are as fast as they get, and what that takes.
//
// Each start is kept in the work folder, so that a campaign that was interrupted goes on where it was.
const cachedPortion report.Portion = "scripts/field, cached"

// cachedPrograms are programs that answer equal requests for ever, and count them.
var cachedPrograms = []struct {
	class, what, archive string
}{
	{"Orders", "H2", "/usr/share/java/h2.jar"},
	{"Page", "Rhino", "/usr/share/java/js.jar"},
}

// startTime is the CPU time that a start is watched for.
const startTime = 6 * time.Second

func (f *field) startTime() time.Duration { return of(f, 2*time.Second, startTime) }

// way is a way to start a program.
type way struct {
	name    string
	release string // the JDK that has it; empty: all
	flags   func(knowledge) []string
}

// knowledge has the files that a training run has left.
type knowledge struct{ profile, cache string }

// ways are compared with the first one. The second is the same again: the floor.
var ways = []way{
	{"cold", "", func(knowledge) []string { return nil }},
	{"cold, again", "", func(knowledge) []string { return nil }},
	{"mode 0", "", func(k knowledge) []string { return []string{"--cached", k.profile, "--mode", "0"} }},
	{"mode 1", "25", func(k knowledge) []string { return []string{"--cached", k.cache, "--mode", "1"} }},
}

// cachedSubject is a program on a JDK.
type cachedSubject struct {
	class, what, release, home string
	path                       string // of classes
	knowledge
}

func (s *cachedSubject) name() string { return s.what + " on " + s.release }

// ways returns the ways that the JDK has.
func (s *cachedSubject) ways() (all []way) {
	for _, w := range ways {
		if w.release == "" || w.release == s.release {
			all = append(all, w)
		}
	}
	return all
}

func runCached(ctx context.Context, f *field) error {
	began := time.Now()
	subjects, err := f.cachedSubjects(ctx)
	if err != nil {
		return err
	}
	starts := make(map[string][]start) // by [cachedKey]
	if f.Quick {
		return f.quickCached(ctx, subjects, starts)
	}
	for pair := range 10 {
		for i := range subjects {
			if err := f.cachedPair(ctx, &subjects[i], pair, starts); err != nil {
				return fmt.Errorf("%s: %w", subjects[i].name(), err)
			}
		}
		if err := f.Write(cachedPortion, cachedReport(subjects, starts, pair+1, began)); err != nil {
			return err
		}
	}
	return nil
}

// quickCached starts one program in all ways of the latest JDK, and checks that it measures.
func (f *field) quickCached(ctx context.Context, subjects []cachedSubject, starts map[string][]start) error {
	if err := os.RemoveAll(f.Path("cached")); err != nil {
		return err
	}
	s := &subjects[len(subjects)-1]
	if err := f.cachedPair(ctx, s, 0, starts); err != nil {
		return err
	}
	for way, all := range starts {
		if one := all[0]; one.PeakCPU <= 0 || one.Late <= 0 || one.Compiled == 0 {
			return fmt.Errorf("%s: nothing was measured: %+v", way, one)
		}
	}
	return nil
}

// cachedSubjects compiles the programs, and lists those that are wanted.
func (f *field) cachedSubjects(ctx context.Context) (all []cachedSubject, err error) {
	home := glob(jdks[0].home)
	if len(home) == 0 {
		return nil, errNoJDK
	}
	if err := f.compileJava(ctx, home[0]); err != nil {
		return nil, err
	}
	// The AOT cache wants archives, and no folder.
	archive := f.Path("jvm.jar")
	if err := campaign.Command(exec.CommandContext(ctx, filepath.Join(home[0], "bin/jar"), "cf", archive, "-C", f.Path("jvm"), ".")); err != nil {
		return nil, err
	}
	for _, jdk := range jdks {
		for _, home := range glob(jdk.home)[:min(1, len(glob(jdk.home)))] {
			for _, p := range cachedPrograms {
				if f.Wants(strings.ToLower(p.class)) {
					all = append(all, cachedSubject{class: p.class, what: p.what, release: jdk.release, home: home, path: archive + ":" + p.archive})
				}
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-only %s: no program", f.Only)
	}
	return all, nil
}

// cachedPair starts a program in all ways, in another order each time.
func (f *field) cachedPair(ctx context.Context, s *cachedSubject, pair int, starts map[string][]start) error {
	if err := f.train(ctx, s); err != nil {
		return fmt.Errorf("training: %w", err)
	}
	all := s.ways()
	for i := range all {
		w := all[(i+pair)%len(all)]
		kept := f.Path("cached", fmt.Sprintf("%s-%s-%s-%d.json", s.class, s.release, w.name, pair))
		var one start
		err := campaign.ReadJSON(kept, &one)
		if errors.Is(err, fs.ErrNotExist) {
			if one, err = f.startCached(ctx, s, w.flags(s.knowledge), f.startTime()); err == nil {
				err = campaign.WriteJSON(kept, one)
			}
			f.Say("%s, %s: %+v", s.name(), w.name, one)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		starts[cachedKey(s, w)] = append(starts[cachedKey(s, w)], one)
	}
	return nil
}

func cachedKey(s *cachedSubject, w way) string { return s.name() + ", " + w.name }

// train has a program leave its profile, and on JDK 25 its AOT cache, unless it has.
func (f *field) train(ctx context.Context, s *cachedSubject) error {
	base := f.Path("cached", s.class+"-"+s.release)
	s.knowledge = knowledge{base + ".json.gz", base + ".aot"}
	if err := os.MkdirAll(f.Path("cached"), 0o755); err != nil {
		return err
	}
	for _, run := range []struct {
		file  string
		flags []string
		has   bool
	}{
		{s.profile, []string{"-o", s.profile}, true},
		{s.cache, []string{"--cached", s.cache, "--mode", "1"}, s.release != "17"},
	} {
		if !run.has {
			continue
		}
		if err := campaign.Once(run.file, func() error {
			_, err := f.startCached(ctx, s, run.flags, 2*f.startTime())
			return err
		}); err != nil {
			return err
		}
		if _, err := os.Stat(run.file); err != nil {
			return err // the program has left nothing
		}
	}
	return nil
}

// start is what a program did from its start on.
type start struct {
	Peak, PeakCPU     float64 // seconds until it was at its peak, and its CPU time until then
	RequestCPU        float64 // CPU time of a request in the first half of its CPU time, ms; of all of it if none was done
	Late              float64 // requests a second of CPU time in the last quarter
	Compiled, Trapped float64 // methods that C2 has compiled, and deoptimizations
}

// startCached starts a program by ccmapd, and ends it after some CPU time.
func (f *field) startCached(ctx context.Context, s *cachedSubject, flags []string, total time.Duration) (start, error) {
	log := f.Path("cached", "compilation.xml")
	command := append([]string{f.Ccmapd, "run", "-q", "-i", "10ms", "--tune=false"}, flags...)
	if !strings.Contains(strings.Join(flags, " "), "-o ") {
		command = append(command, "-o", f.Path("cached", "start.json.gz"))
	}
	command = append(command, "--", filepath.Join(s.home, "bin/java"), "-Xmx512m", "-XX:+UnlockDiagnosticVMOptions",
		"-XX:+LogCompilation", "-XX:LogFile="+log, "-cp", s.path, s.class)
	out, in := io.Pipe()
	w := &warmup{began: time.Now()}
	watched, started := make(chan error, 1), make(chan *campaign.Process, 1)
	go func() {
		err := w.read(out, started, total)
		io.Copy(io.Discard, out) // or the program would wait
		watched <- err
	}()
	p, err := campaign.Launch{Command: command, Ready: isReady, Stdout: in}.Start(ctx)
	if err != nil {
		close(started)
		in.Close()
		return start{}, err
	}
	defer p.Stop()
	started <- p
	ended := p.Wait() // a signal has ended the program
	in.Close()
	if err := <-watched; err != nil {
		return start{}, errors.Join(err, ended)
	}
	one := w.start()
	one.Compiled, one.Trapped, err = readCompilations(log)
	return one, err
}

// readCompilations counts what C2 has compiled, and deoptimizations, in a JVM's log.
func readCompilations(file string) (compiled, trapped float64, err error) {
	text, err := os.Open(file)
	if err != nil {
		return 0, 0, err
	}
	defer text.Close()
	lines := bufio.NewScanner(text)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "<nmethod ") && strings.Contains(line, " level='4'"):
			compiled++
		case strings.HasPrefix(line, "<uncommon_trap thread="):
			trapped++
		}
	}
	return compiled, trapped, lines.Err()
}

func cachedReport(subjects []cachedSubject, starts map[string][]start, pairs int, began time.Time) string {
	t := report.Table{Head: []string{
		"program", "start", "time to peak", "CPU time to peak", "CPU time of a request, first half", "late speed", "C2's compilations", "deoptimizations",
	}}
	for i := range subjects {
		s := &subjects[i]
		cold := starts[cachedKey(s, ways[0])]
		for k, w := range s.ways() {
			row := []string{s.name(), w.name}
			for _, figure := range startFigures {
				row = append(row, figure.cell(cold, starts[cachedKey(s, w)], k == 0))
			}
			t.Row(row...)
		}
	}
	return fmt.Sprintf("%s All starts together took %v; the load average, others' work included, was %.1f at the end. Medians of %d starts, and of the ratios of %d pairs to the cold start, with the interval of the sign test; each start has %v of CPU time.\n\n%s",
		report.Measured(began), after(began), report.LoadAverage(), pairs, pairs, startTime, t.String())
}

// startFigure is a column.
type startFigure struct {
	of   func(start) float64
	unit string
	make func(float64) string
	few  bool // it can be 0, so a ratio says nothing
}

var startFigures = []startFigure{
	{func(s start) float64 { return s.Peak }, " s", func(v float64) string { return report.Number(v, 1) }, false},
	{func(s start) float64 { return s.PeakCPU }, " s", func(v float64) string { return report.Number(v, 1) }, false},
	{func(s start) float64 { return s.RequestCPU }, " ms", func(v float64) string { return report.Number(v, 2) }, false},
	{func(s start) float64 { return s.Late }, "/s", report.Count, false},
	{func(s start) float64 { return s.Compiled }, "", report.Count, false},
	{func(s start) float64 { return s.Trapped }, "", report.Count, true},
}

// cell gives the cold figure itself, the others as ratios to it.
func (g startFigure) cell(cold, other []start, isCold bool) string {
	isCold = isCold || g.few
	var values []float64
	for i := range other {
		v := g.of(other[i])
		if !isCold {
			v /= g.of(cold[i])
		}
		values = append(values, v)
	}
	m := campaign.MedianOf(values)
	if isCold {
		return g.make(m.Middle) + g.unit
	}
	return report.Number(m.Middle, 2) + " (" + report.Number(m.Low, 2) + "–" + report.Number(m.High, 2) + ")"
}
