package manager

import (
	"cmp"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/valueprof"
)

const (
	// callTargets is the default number of methods in the table of one call site.
	callTargets = 15
	// defaultPoints is the default bound of the profile points.
	defaultPoints = 65536
)

// values counts the methods that the target's calls reach, from caught calls. Each
// call counts twice: in any context, and in the context of its callers. Calls on
// sampled stacks do not count here: the map has them exactly.
//
// The manager's goroutine owns all of it.
type values struct {
	caught   *valueprof.Profile // calls since the last look for a drift; nil: off
	phased   phasedPoints       // calls before
	contexts contexts
	code     codeMethods

	calls    uint64    // caught
	changed  bool      // the map does not have all of it
	earliest time.Time // when the map gets the rest
}

// newValues returns values that count nothing if o.Off is set.
func newValues(o ValueOptions, names *ccmap.Names, log *slog.Logger) *values {
	if o.Off {
		return new(values)
	}
	points := cmp.Or(max(o.MaxPoints, 0), defaultPoints)
	v := &values{contexts: newContexts(points), code: codeMethods{names: names}, phased: phasedPoints{limit: points}}
	v.caught = valueprof.NewProfile(valueprof.Options{
		Capacity: cmp.Or(o.Capacity, callTargets), Hash: o.Hash, Policy: o.Policy, MaxPoints: points,
		Log:  log,
		Dump: newValueDump(o.Dump, names),
		Name: v.siteName,
	})
	return v
}

func (v *values) off() bool { return v.caught == nil }

// resume takes in the points of earlier sessions of the map. Calls of this session belong to the
// last of their phases, unless the program drifts.
func (v *values) resume(points []ccmap.Point) {
	if v.off() {
		return
	}
	for _, p := range pointsOf(points, ccmap.OriginBurst) {
		v.phased.all = append(v.phased.all, p)
		v.phased.phase = max(v.phased.phase, p.Phase)
	}
}

// addPoints adds the points of calls that the target has caught itself.
func (v *values) addPoints(points []ccmap.Point) {
	if v.off() {
		return
	}
	v.phased.all = ccmap.SumPoints(v.phased.all, pointsOf(points, ccmap.OriginBurst))
	v.phased.makeRoom()
	v.changed = true
}

// count counts a caught call. A call of code without a name counts, too, because it
// is one of the receivers.
func (v *values) count(s *ccmap.Sample) {
	if v.off() {
		return
	}
	v.code.update()
	if len(s.Frames) < 2 || !v.code.has(s.Frames[1].Method) || s.Frames[1].Offset == ccmap.NoOffset {
		return
	}
	site := valueprof.Site{Method: uint32(s.Frames[1].Method), Offset: s.Frames[1].Offset}
	target := uint64(s.Frames[0].Method)
	v.changed = true
	v.calls++
	v.caught.Call(site, target)
	site.Context = v.contexts.id(v.code.callersOf(s.Frames[2:]), v.caught.Sites)
	v.caught.Call(site, target)
}

// cut sets the calls so far apart as a chunk, for a look for a drift.
func (v *values) cut() {
	if v.off() {
		return
	}
	v.phased.chunk = ccmap.SumPoints(v.phased.chunk, v.latest())
	v.caught.Clear()
}

// assign assigns the chunk to the present phase of the program, or to a new one.
func (v *values) assign(newPhase bool) {
	v.changed = v.changed || newPhase
	v.phased.assign(newPhase)
}

// points returns the profile points of all caught calls, for the map.
func (v *values) points() []ccmap.Point {
	if v.off() {
		return nil
	}
	return v.phased.points(v.latest())
}

// latest returns the points of the calls since the last cut.
func (v *values) latest() []ccmap.Point { return v.caught.Points(v.contexts.frames) }

// codeMethods tells methods of code from pseudo methods such as [kernel]. Pseudo
// methods make no calls.
type codeMethods struct {
	names *ccmap.Names
	is    []bool // by MethodID
}

// update takes in the methods that are new in the names.
func (c *codeMethods) update() {
	for id := len(c.is); id < c.names.Len(); id++ {
		c.is = append(c.is, !strings.HasPrefix(c.names.At(ccmap.MethodID(id)).Name, "["))
	}
}

func (c *codeMethods) has(id ccmap.MethodID) bool { return int64(id) < int64(len(c.is)) && c.is[id] }

// callers is a calling context: frames at their calls, innermost first. NoMethod marks
// the end of the stack, or of its known part.
type callers [ccmap.MaxPointCallers]ccmap.Frame

// callersOf returns the context of a stack's innermost frames. The context ends at a
// pseudo method, because the code there is unknown.
func (c *codeMethods) callersOf(frames []ccmap.Frame) callers {
	var context callers
	for i := range context {
		if i == len(frames) || !c.has(frames[i].Method) {
			context[i].Method = ccmap.NoMethod
			break
		}
		context[i] = frames[i]
	}
	return context
}

// frames returns the context in the form of a profile point.
func (c *callers) frames() []ccmap.Frame {
	for i, f := range c {
		if f.Method == ccmap.NoMethod {
			return c[:i:i]
		}
	}
	return c[:]
}

// anyContext is the number that stands for any context.
const anyContext = 0

// contexts numbers calling contexts from 1, for the sites of a profile. It has a
// quarter more numbers than there can be points. When all numbers are taken, contexts
// frees the numbers that no point has, at least a quarter. So a session of months
// names the contexts that matter now. Each context takes about 100 bytes.
type contexts struct {
	ids   map[callers]uint32
	all   []*callers // by number − 1; nil: free. A callers never changes, so profile points share it
	free  []uint32   // numbers
	limit int
}

func newContexts(points int) contexts {
	return contexts{ids: make(map[callers]uint32), limit: points + points/4 + 1}
}

// id returns the number of a context. inUse returns the sites of all points.
func (x *contexts) id(c callers, inUse func() iter.Seq[valueprof.Site]) uint32 {
	if id, known := x.ids[c]; known {
		return id
	}
	if len(x.ids) == x.limit {
		x.keep(inUse())
	}
	id, kept := x.newID(), c
	x.ids[c], x.all[id-1] = id, &kept
	return id
}

func (x *contexts) newID() uint32 {
	if last := len(x.free) - 1; last >= 0 {
		id := x.free[last]
		x.free = x.free[:last]
		return id
	}
	x.all = append(x.all, nil)
	return uint32(len(x.all))
}

// keep frees the numbers that the sites do not have.
func (x *contexts) keep(sites iter.Seq[valueprof.Site]) {
	used := make([]bool, len(x.all)+1)
	for s := range sites {
		used[s.Context] = true
	}
	for i, c := range x.all {
		if id := uint32(i + 1); c != nil && !used[id] {
			delete(x.ids, *c)
			x.all[i] = nil
			x.free = append(x.free, id)
		}
	}
}

// frames returns the callers of a context. It returns nil for any context, and an
// empty slice for the context without callers, where the stack ends.
func (x *contexts) frames(id uint32) []ccmap.Frame {
	if id == anyContext {
		return nil
	}
	return x.all[id-1].frames()
}

// siteName names a site in the dump by the method and line of the call, or by its
// offset if the line is unknown. The callers of its context follow:
// "main.sum:12<main.main:40".
func (v *values) siteName(s valueprof.Site) string {
	name := v.placeName(ccmap.Frame{Method: ccmap.MethodID(s.Method), Offset: s.Offset})
	for _, f := range v.contexts.frames(s.Context) {
		name += "<" + v.placeName(f)
	}
	return name
}

func (v *values) placeName(f ccmap.Frame) string {
	m := v.code.names.At(f.Method)
	if line := v.code.names.Line(f); line != 0 {
		return fmt.Sprintf("%s:%d", m.Name, line)
	}
	return m.Name + m.Coordinate.Format(f.Offset)
}

// valueDump replaces the values in the dump of value tables, which are numbers of
// methods, by names.
type valueDump struct {
	w     io.Writer
	names *ccmap.Names
}

// newValueDump returns nil for a nil writer.
func newValueDump(w io.Writer, names *ccmap.Names) io.Writer {
	if w == nil {
		return nil
	}
	return &valueDump{w, names}
}

var dumpedValue = regexp.MustCompile(`\bvalue=0x[0-9a-f]+`)

// Write takes one line.
func (d *valueDump) Write(line []byte) (int, error) {
	named := dumpedValue.ReplaceAllFunc(line, func(value []byte) []byte {
		id, err := strconv.ParseUint(string(value[len("value=0x"):]), 16, 32)
		if err != nil || id >= uint64(d.names.Len()) {
			return value
		}
		return fmt.Appendf(nil, "value=%s", d.names.At(ccmap.MethodID(id)).Name)
	})
	if _, err := d.w.Write(named); err != nil {
		return 0, err
	}
	return len(line), nil
}
