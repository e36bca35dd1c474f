package soak

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestLedgerNotices folds samples that the ledger does not have, in the other direction,
// and in another place.
func TestLedgerNotices(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		wrong func(m *ccmap.Map, l *ledger, s *stack)
		ok    bool
	}{
		{"nothing", func(*ccmap.Map, *ledger, *stack) {}, true},
		{"a sample too many", func(m *ccmap.Map, _ *ledger, s *stack) { m.Fold(&ccmap.Sample{Frames: s.frames}) }, false},
		{"a sample too few", func(_ *ccmap.Map, l *ledger, s *stack) { l.count(s, 1, 0) }, false},
		{"another place", func(m *ccmap.Map, l *ledger, s *stack) {
			m.Fold(&ccmap.Sample{Frames: s.frames[1:]})
			l.count(s, 0, 0)
		}, false},
	} {
		l := newLedger()
		p := newProgram(l, 1)
		m := ccmap.New(ccmap.Options{Names: l.names})
		s := ccmap.Sample{Weight: 1}
		for range 1000 {
			p.sample(&s)
			m.Fold(&s)
		}
		test.wrong(m, l, p.live[0])
		if err := l.check(m.Snapshot(), p.stacks()); (err == nil) != test.ok {
			t.Errorf("%s: check says %v", test.name, err)
		}
	}
}

// TestCovers compares two windows. One has seen half of the other's contexts.
func TestCovers(t *testing.T) {
	t.Parallel()
	names := ccmap.NewNames()
	a := names.Intern(ccmap.Method{Name: "A"})
	stack := func(offset uint32) *ccmap.Sample {
		return &ccmap.Sample{Frames: []ccmap.Frame{{Method: a, Offset: 1}, {Method: a, Offset: offset}}, Weight: 5}
	}
	truth, window := ccmap.New(ccmap.Options{Names: names}), ccmap.New(ccmap.Options{Names: names})
	for offset := range uint32(4) {
		truth.Fold(stack(offset))
		if offset%2 == 0 {
			window.Fold(stack(offset))
		}
	}
	want := coverage{hot: 0.5, top: 0.5, right: 0.5}
	if got := covers(window.Snapshot(), truth.Snapshot()); got != want {
		t.Errorf("coverage is %+v, want %+v", got, want)
	}
	want = coverage{hot: 1, top: 1, right: 1}
	if got := covers(truth.Snapshot(), truth.Snapshot()); got != want {
		t.Errorf("coverage of the same is %+v, want %+v", got, want)
	}
}

// The line of a day has the day's least coverage. For a map that was never pruned the
// table says that the run proves little.
func TestTable(t *testing.T) {
	t.Parallel()
	for _, pruned := range []uint64{0, 3} {
		var out bytes.Buffer
		table := newTable(&out)
		for i, top := range []float64{1, 0.97, 0.99} {
			table.add(checkpoint{
				at:       time.Duration(i+1) * 12 * time.Hour,
				coverage: coverage{hot: 1, top: top, right: 1},
				prunes:   ccmap.PruneStats{Times: pruned},
			})
		}
		table.end()
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if !strings.HasPrefix(lines[1], "  1 ") || !strings.Contains(lines[1], " 97.0%") || !strings.HasPrefix(lines[2], "all ") {
			t.Errorf("table:\n%s", &out)
		}
		if noted := strings.HasPrefix(lines[len(lines)-1], "nothing was pruned"); noted != (pruned == 0) {
			t.Errorf("pruned %d times:\n%s", pruned, &out)
		}
	}
}
