package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
	"github.com/ccmapd/ccmapd/scripts/campaign"
	"github.com/ccmapd/ccmapd/scripts/report"
)

// The campaign jvmpeer lets ccmapd and async-profiler sample a JVM in the same window, both
// every 10 ms of CPU time, and compares what they say of Java code.
const jvmPeerPortion report.Portion = "scripts/field, jvmpeer"

// peerRow is what both say of one window.
type peerRow struct {
	program, engine string
	spinning        int     // processes that spin beside it
	load            float64 // of the machine, after
	ours, theirs    side
	agreement       compare.Result
}

// side is what one of them says.
type side struct {
	samples int64
	java    *ccmap.Snapshot // its Java code alone
	cut     float64         // percent of Java code's time whose stack does not begin where threads do
	broken  float64         // percent of all time in stacks that could not be walked to their end
}

func runJVMPeer(ctx context.Context, f *field) error {
	async, err := f.asyncProfiler()
	if err != nil {
		return err
	}
	if async == "" {
		return errors.New("no build of async-profiler to compare with: say where it is (-async FOLDER)")
	}
	if err := f.buildClocked(ctx); err != nil {
		return err
	}
	began := time.Now()
	var rows []peerRow
	err = f.eachJVM(ctx, func(program int, release, home string) error {
		found, err := f.besideAsync(ctx, home, program, release, async)
		rows = append(rows, found...)
		return err
	})
	if err != nil {
		return err
	}
	old, err := f.others(jvmPeerPortion)
	if err != nil {
		return err
	}
	return f.Write(jvmPeerPortion, peerReport(rows, old, f.length(), began))
}

// besideAsync starts a program, and watches a window by each engine. Some are watched on a busy machine, too.
func (f *field) besideAsync(ctx context.Context, home string, program int, release string, async asyncProfiler) ([]peerRow, error) {
	running, err := f.startJVM(ctx, home, program, nil)
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	if err := f.warm(ctx); err != nil {
		return nil, err
	}
	loads := outsideLoads
	if f.Quick || !jvmPrograms[program].busyToo {
		loads = loads[:1]
	}
	var rows []peerRow
	for _, spinning := range loads {
		for _, engine := range []string{"bpf", "perf"} {
			row := peerRow{program: jvmPrograms[program].what + " on " + release, engine: engine, spinning: spinning}
			name := fmt.Sprintf("%s%s-%s-%d", strings.ToLower(jvmPrograms[program].class), release, engine, spinning)
			if err := f.watchBeside(ctx, running, async, f.Path("profiles", "jvmpeer", name), &row); err != nil {
				return rows, fmt.Errorf("by %s, %d processes spin: %w", engine, spinning, err)
			}
			f.Say("%s", strings.Join(row.cells(), ", "))
			rows = append(rows, row)
		}
	}
	return rows, nil
}

// watchBeside watches a window beside so many processes that spin as a row says.
func (f *field) watchBeside(ctx context.Context, p *campaign.Process, async asyncProfiler, folder string, row *peerRow) error {
	stop, err := f.keepBusy(ctx, row.spinning)
	if err != nil {
		return err
	}
	defer stop()
	window := f.length()
	if row.spinning > 0 {
		window *= busyLonger
	}
	return f.watchBoth(ctx, p, async, folder, window, row)
}

// busyLonger is how much longer a window is on a busy machine, where a program has a part of the CPUs.
const busyLonger = 6

// warm lets the compiler of a JVM do most of its work.
func (f *field) warm(ctx context.Context) error {
	select {
	case <-ctx.Done():
	case <-time.After(f.length()):
	}
	return ctx.Err()
}

// watchBoth watches a window by both. ccmapd reads the recording, too.
func (f *field) watchBoth(ctx context.Context, p *campaign.Process, async asyncProfiler, folder string, window time.Duration, row *peerRow) error {
	ours, recording, theirs := filepath.Join(folder, "ccmapd.json.gz"), filepath.Join(folder, "async.jfr"), filepath.Join(folder, "async.json.gz")
	session, err := f.Attach(ctx, p.PID(), "", ours, "--engine", row.engine, "--tune=false", "-i", "10ms", "--max-overhead", "0")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(recording); err != nil {
		return err
	}
	err = async.record(ctx, p.PID(), recording, func(ctx context.Context) error {
		select {
		case <-ctx.Done():
		case <-time.After(window):
		}
		return ctx.Err()
	})
	row.load = report.LoadAverage()
	_, err2 := session.End()
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	if err := campaign.Command(exec.CommandContext(ctx, f.Ccmapd, "convert", recording, theirs)); err != nil {
		return err
	}
	if row.ours, err = readSide(ours); err != nil {
		return err
	}
	if row.theirs, err = readSide(theirs); err != nil {
		return err
	}
	row.agreement, err = compare.Compare(row.ours.java, row.theirs.java, compare.Options{Seed: 1})
	return err
}

func readSide(file string) (side, error) {
	s, err := campaign.ReadProfile(file)
	if err != nil {
		return side{}, err
	}
	java := javaOf(s)
	return side{
		samples: s.Total().Samples, java: java,
		cut: cutShare(java), broken: shareOf(s, isBroken),
	}, nil
}

// isJava reports whether a method is one of Java.
func isJava(m ccmap.Method) bool { return m.Coordinate == ccmap.CoordinateBytecode }

// javaOf returns a profile's stacks without the frames of other languages. The innermost Java
// method has the time of what it has called, and stacks without Java code are left out.
func javaOf(s *ccmap.Snapshot) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	places := map[ccmap.NodeID]javaPlace{0: {node: m.Root(), left: true, call: ccmap.NoOffset}}
	for n := range s.Nodes() { // callers come before their callees
		at := places[n.Parent]
		switch {
		case n.ID == 0 || n.Method == ccmap.NoMethod:
		case isJava(methodOf(s, n.ID)):
			at = javaPlace{node: m.Child(at.node, at.callAt(n.Offset), m.Names().Intern(methodOf(s, n.ID)))}
		default:
			at = javaPlace{node: at.node, left: true, call: at.callAt(n.Offset)}
		}
		places[n.ID] = at
		if at.node != m.Root() {
			m.Add(at.node, n.Self)
		}
	}
	return m.Snapshot()
}

// javaPlace is where a node of a profile is among its Java code.
type javaPlace struct {
	node ccmap.NodeID // of the innermost Java method
	left bool         // other code runs above that method
	call uint32       // where the method has called that code
}

// callAt returns where the innermost Java method has made a call, which the code above it has at
// an offset.
func (p javaPlace) callAt(offset uint32) uint32 {
	if p.left {
		return p.call
	}
	return offset
}

// beginning matches the methods that a JVM calls by itself, as threads begin and end, and as it
// needs classes.
var beginning = regexp.MustCompile(`\.(run|main|exit|<clinit>|loadClass|invokeMain)$`)

// cutShare returns the percentage of the time whose outermost method is none that the JVM calls.
func cutShare(java *ccmap.Snapshot) float64 {
	var cut int64
	for n := range java.Nodes() {
		if n.Method != ccmap.NoMethod && n.Parent == 0 && !beginning.MatchString(methodOf(java, n.ID).Name) {
			cut += java.Inclusive(n.ID).Time
		}
	}
	return 100 * float64(cut) / float64(max(java.Total().Time, 1))
}

// broken matches the names that stand for the rest of a stack that could not be walked: ccmapd's,
// and async-profiler's (src/profiler.cpp, src/stackWalker.cpp, 4.5).
var broken = regexp.MustCompile(`^(\[truncated\]|\[native\]|\[unknown\]|(unknown_(Java|not_Java|nmethod|state)|not_walkable_(not_)?Java|no_Java_frame|truncated|skipped|break_[a-z_]+))$`)

func isBroken(m ccmap.Method) bool {
	return !isJava(m) && m.Signature == "" && broken.MatchString(m.Name)
}

func (r peerRow) cells() []string {
	overlap := func(o compare.Overlap) string {
		return fmt.Sprintf("%s (%s ± %s)", report.Percent(o.Percent), report.Percent(o.Expected), report.Percent(o.Deviation))
	}
	both := func(ours, theirs string) string { return ours + ", " + theirs }
	return []string{
		r.program, strconv.Itoa(r.spinning), r.engine, report.Percent(r.load), both(report.Count(float64(r.ours.samples)), report.Count(float64(r.theirs.samples))),
		overlap(r.agreement.Methods), overlap(r.agreement.Edges), overlap(r.agreement.Contexts),
		both(report.Number(r.ours.cut, 2), report.Number(r.theirs.cut, 2)),
		both(report.Number(r.ours.broken, 2), report.Number(r.theirs.broken, 2)),
	}
}

// peerReport has the rows, after those of programs that were not measured again.
func peerReport(rows []peerRow, old [][]string, window time.Duration, began time.Time) string {
	t := report.Table{Head: []string{
		"program", "processes beside", "engine", "load", "samples", "methods, % (expected)", "edges", "contexts", "Java stacks without a beginning, %", "broken stacks, %",
	}}
	again := make(map[string]bool)
	for _, r := range rows {
		again[r.program] = true
	}
	addOthers(&t, old, again)
	for _, r := range rows {
		t.Row(r.cells()...)
	}
	return fmt.Sprintf("%s The last run took %v; each was watched for %v, once it had run as long, and for %v beside processes that spin. Where a cell has two figures, the second is %s's.\n\n%s",
		report.Measured(began), after(began), window, busyLonger*window, asyncName, t.String())
}
