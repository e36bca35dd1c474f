package view

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/query"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestHeat compares cells with a count of the samples by their times and stacks.
func TestHeat(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := ccmap.NewNames()
		samples := profiletest.Samples(t, names)
		start := time.Date(2026, 11, 20, 10, 0, rapid.IntRange(0, 59).Draw(t, "second"), 0, time.UTC)
		duration := time.Duration(rapid.Int64Range(1, int64(48*time.Hour)).Draw(t, "duration"))
		var moments []ccmap.Moment
		m := ccmap.New(ccmap.Options{Names: names, Moments: func(m ccmap.Moment) { moments = append(moments, m) }})
		for i := range samples {
			samples[i].Time = start.UnixNano() + rapid.Int64Range(0, int64(duration)-1).Draw(t, "at")
			m.Fold(&samples[i])
		}
		m.Meta().Start, m.Meta().Duration = start, duration
		m.SetMoments(slices.Values(moments))
		p := New("p", m.Snapshot())
		o := HeatOptions{}
		path, err := query.ParsePath(rapid.SampledFrom([]string{"A", "B > A", "A > B > C"}).Draw(t, "path"))
		if err != nil {
			t.Fatal(err)
		}
		if o.Focus, err = query.New(p.Snapshot, path, query.Named); err != nil {
			t.Skip("none has the path")
		}
		v, err := NewHeat(p, o)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(v.cells) / heatRows; n > mostColumns || n > 1 && v.From.Add(time.Duration(n-1)*v.Column).After(start.Add(duration)) {
			t.Errorf("%d columns of %v from %v", n, v.Column, v.From)
		}
		cells, focused := slices.Clone(v.cells), slices.Clone(v.focused)
		for _, s := range samples {
			i := (s.Time - v.From.UnixNano()) * heatRows / int64(v.Column)
			cells[i] = less(cells[i], s.Weight)
			if hasPath(s.Frames, path) {
				focused[i] = less(focused[i], s.Weight)
			}
		}
		isLeft := func(c ccmap.Counters) bool { return !c.IsZero() }
		if slices.ContainsFunc(cells, isLeft) || slices.ContainsFunc(focused, isLeft) {
			t.Errorf("cells differ from the samples by %v, of the path by %v", sumOfCells(cells), sumOfCells(focused))
		}
	})
}

func less(c ccmap.Counters, weight int64) ccmap.Counters {
	return ccmap.Counters{Samples: c.Samples - 1, Time: c.Time - weight}
}

// hasPath reports whether a stack, innermost frame first, has calls by the names of a path.
func hasPath(frames []ccmap.Frame, path query.Path) bool {
	for at := range frames {
		k := 0
		for k < len(path) && at+k < len(frames) && string(profiletest.Methods[frames[at+k].Method-ccmap.FirstID]) == path[len(path)-1-k].Name {
			k++
		}
		if k == len(path) {
			return true
		}
	}
	return false
}

// TestHeatWithoutMoments: a profile that does not know when its samples were taken says what does.
func TestHeatWithoutMoments(t *testing.T) {
	t.Parallel()
	_, err := NewHeat(New("p", profiletest.Drawing(1).Snapshot()), HeatOptions{})
	var known *Error
	if !errors.As(err, &known) || known.Code != CodeUsage || known.Hint == "" {
		t.Error(err)
	}
}

// TestHeatText: a day with samples in three minutes has a line for each minute, and says when it was busiest.
func TestHeatText(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	m := profiletest.Drawing(1)
	m.Meta().Start, m.Meta().Duration = start, 24*time.Hour
	var moments []ccmap.Moment
	for _, second := range []int64{36000, 36001, 36001, 36070, 36120} {
		moments = append(moments, ccmap.Moment{Time: start.UnixNano() + second*1e9, Path: 2, Weight: 1e9})
	}
	m.SetMoments(slices.Values(moments))
	v, err := NewHeat(New("p", m.Snapshot()), HeatOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := v.Text(&out, TextOptions{Columns: []string{"time", "samples", "busiest"}}); err != nil {
		t.Fatal(err)
	}
	const want = "2026-11-20 10:00:00 3 2026-11-20 10:00:01 2026-11-20 10:01:00 1 2026-11-20 10:01:10 2026-11-20 10:02:00 1 2026-11-20 10:02:00"
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, want) {
		t.Errorf("%s\nwant %s", out.String(), want)
	}
}
