package toyjit

import (
	"bytes"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/compilation"
	"github.com/ccmapd/ccmapd/sampler/managed"
)

// Methods of the program.
const (
	scene = iota
	circle
	square
)

var program = []Method{
	scene:  {"scene.draw", []Op{{"work", 1}, {"virtual", 0}, {"work", 2}}},
	circle: {"circle.draw", []Op{{"work", 3}, {"work", 5}}},
	square: {"square.draw", []Op{{"work", 7}}},
}

func circles(int) int { return circle }
func squares(int) int { return square }

// calls of the scene in a run: some times the threshold.
const sceneCalls = 3 * threshold

// kept is what a run has left.
type kept struct {
	log     *bytes.Buffer
	profile *ccmap.Snapshot
}

func (k kept) cached(t *testing.T) *managed.Cached {
	t.Helper()
	c, err := managed.ReadCached(bytes.NewReader(k.log.Bytes()), k.profile)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// run runs the program with receivers, and returns its VM and what it has left beside what was there before.
func run(t *testing.T, receiver func(int) int, before *bytes.Buffer, c *managed.Cached) (*VM, *managed.Profiler, kept) {
	t.Helper()
	log := new(bytes.Buffer)
	if before != nil {
		log.Write(before.Bytes())
	}
	p := managed.New(managed.Options{Interval: -1, Cached: c, Records: log})
	vm := New(p, program, receiver)
	defer vm.Close()
	for range sceneCalls {
		vm.Run(scene)
	}
	m := ccmap.New(ccmap.Options{Names: p.Sink().Names})
	m.SetPoints(ccmap.OriginVM, vm.Points())
	return vm, p, kept{log, m.Snapshot()}
}

// TestSecondRunIsFaster: with the profile of an earlier run, methods are compiled after a hundredth of the calls, by
// the receivers of that run, and nothing else changes.
func TestSecondRunIsFaster(t *testing.T) {
	t.Parallel()
	first, _, left := run(t, circles, nil, nil)
	if first.Cached != 0 || first.Thrown != 0 || first.Compiled != 2 {
		t.Fatalf("first run: %+v", first)
	}
	second, p, again := run(t, circles, left.log, left.cached(t))
	if second.Sum != first.Sum {
		t.Errorf("the program computes %d, and %d with a cached profile", first.Sum, second.Sum)
	}
	if second.Cached != 2 || second.Compiled != 2 || second.Thrown != 0 || second.Steps > 2*first.Steps/3 {
		t.Errorf("first run %d steps; second %d, %d of %d compilations by a cached profile, %d thrown away",
			first.Steps, second.Steps, second.Cached, second.Compiled, second.Thrown)
	}
	t.Logf("%d steps, then %d", first.Steps, second.Steps)
	if !bytes.Equal(again.log.Bytes(), left.log.Bytes()) {
		t.Error("a run that learned nothing has left records")
	}
	if level, points := p.Cached(second.methods[scene].id); level != optimizing || len(points) != 1 || points[0].Origin != ccmap.OriginCached ||
		points[0].Method != second.methods[scene].id || points[0].Values[0].Value != uint64(second.methods[circle].id) {
		t.Errorf("level %d, %+v", level, points)
	}
}

// TestProfileOfAnotherWorkload: a cached profile that does not fit is wrong ten times, and then out of use, in this run
// and the next, until the method is compiled by what was counted.
func TestProfileOfAnotherWorkload(t *testing.T) {
	t.Parallel()
	_, _, left := run(t, circles, nil, nil)
	cold, _, _ := run(t, squares, nil, nil)
	wrong, p, after := run(t, squares, left.log, left.cached(t))
	if wrong.Sum != cold.Sum || wrong.Thrown != compilation.MostWrong {
		t.Errorf("the program computes %d, want %d; code was thrown away %d times", wrong.Sum, cold.Sum, wrong.Thrown)
	}
	id := wrong.methods[scene].id
	if level, _ := p.Cached(id); level != 0 || p.Threshold(id) != 1 {
		t.Errorf("level %d, threshold %v: the points of the cached profile are those of the other workload still", level, p.Threshold(id))
	}
	// Ten times 20 calls were interpreted, and code was thrown away; from then on all is as in a cold run.
	if most := cold.Steps + compilation.MostWrong*(thrown+threshold/100*8*interpreted); wrong.Steps > most {
		t.Errorf("%d steps, %d in a cold run, at most %d", wrong.Steps, cold.Steps, most)
	}
	next, _, _ := run(t, squares, after.log, after.cached(t))
	if next.Thrown != 0 || next.Cached == 0 || next.Steps > 2*cold.Steps/3 {
		t.Errorf("the run after has what was compiled anew: %d thrown away, %d by cached profiles, %d steps", next.Thrown, next.Cached, next.Steps)
	}
}

// TestOutOfUse: until then, the next run does not use it, however it ended.
func TestOutOfUse(t *testing.T) {
	t.Parallel()
	_, _, left := run(t, circles, nil, nil)
	log := bytes.NewBuffer(bytes.Clone(left.log.Bytes()))
	p := managed.New(managed.Options{Interval: -1, Cached: left.cached(t), Records: log})
	vm := New(p, program, squares)
	for vm.Thrown < compilation.MostWrong {
		vm.Run(scene)
	}
	id := vm.methods[scene].id
	if level, points := p.Cached(id); level != 0 || points != nil || p.Threshold(id) != 1 {
		t.Errorf("after ten mismatches: level %d, %d points, threshold %v", level, len(points), p.Threshold(id))
	}
	vm.Close()
	next := kept{log, left.profile}.cached(t)
	q := managed.New(managed.Options{Interval: -1, Cached: next})
	if level, _ := q.Cached(New(q, program, squares).methods[scene].id); level != 0 {
		t.Error("the next run uses it again")
	}
}
