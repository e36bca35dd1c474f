package mergefiles

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/daemon/client"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/advice"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// thicket is a map of many contexts, with its seed as a comment.
func thicket(seed uint64) *ccmap.Map {
	m := profiletest.Thicket(seed)
	m.Meta().Comments = []string{fmt.Sprint("seed ", seed)}
	return m
}

// writeThickets writes so many profiles and returns their names.
func writeThickets(t *testing.T, n int) (paths []string) {
	t.Helper()
	dir := t.TempDir()
	for i := range n {
		path := filepath.Join(dir, fmt.Sprintf("%d.pb.gz", i))
		if err := export.WriteFile(path, thicket(uint64(i)).Snapshot()); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// mergerOf returns a merger of so many profiles, and what it says.
func mergerOf(t *testing.T, paths []string, o Options) (*Merger, *strings.Builder) {
	t.Helper()
	said := new(strings.Builder)
	if o.Stderr, o.From = said, new(client.Reader); o.MaxMemory == 0 {
		o.MaxMemory = export.DefaultMaxMemory()
	}
	for _, path := range paths {
		o.Inputs = append(o.Inputs, Input{Path: path})
	}
	return New(o), said
}

// Whichever profile is read first, they are added up in their order.
func TestMergeKeepsTheOrder(t *testing.T) {
	t.Parallel()
	paths := writeThickets(t, 20)
	m, said := mergerOf(t, paths, Options{})
	if err := errors.Join(m.Run(), m.LeftOut()); err != nil || m.Merged != 20 || said.Len() > 0 {
		t.Fatalf("%d merged, %v, and it says %q", m.Merged, err, said)
	}
	var want []string
	for i := range paths {
		want = append(want, fmt.Sprint("seed ", i))
	}
	if diff := cmp.Diff(want, m.Sum.Meta().Comments); diff != "" {
		t.Error(diff)
	}
	if got := m.Sum.Snapshot().Total().Samples; got != 20*2000 {
		t.Errorf("%d samples", got)
	}
}

func TestMergePrunesToItsBudget(t *testing.T) {
	t.Parallel()
	m, _ := mergerOf(t, writeThickets(t, 4), Options{MaxSum: 400 << 10})
	if err := m.Run(); err != nil {
		t.Fatal(err)
	}
	if s := m.Sum.Snapshot(); !s.Pruned() || s.PrunedTotal().Samples == 0 || s.Total().Samples != 4*2000 {
		t.Errorf("pruned %t, %v of %v", s.Pruned(), s.PrunedTotal(), s.Total())
	}
}

// An error ends it at once, without waiting for what is read ahead.
func TestMergeStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	m, _ := mergerOf(t, append([]string{"missing"}, writeThickets(t, 5)...), Options{})
	if err := m.Run(); !errors.Is(err, fs.ErrNotExist) || !errors.As(err, new(InputError)) || m.Merged != 0 {
		t.Errorf("%d merged, %v", m.Merged, err)
	}
}

// TestMergeKeepsGoing: profiles that cannot be read are named, printable, and left out.
func TestMergeKeepsGoing(t *testing.T) {
	t.Parallel()
	paths := append([]string{"miss\x1bing"}, writeThickets(t, 3)...)
	m, said := mergerOf(t, paths, Options{KeepGoing: true})
	if err := m.Run(); err != nil || m.Merged != 3 || m.Sum.Snapshot().Total().Samples != 3*2000 {
		t.Errorf("%d merged, %v", m.Merged, err)
	}
	if text := said.String(); strings.Count(text, "left out: ") != 1 || strings.Contains(text, "\x1b") {
		t.Errorf("it says %q", text)
	}
	if err := m.LeftOut(); err == nil || !strings.HasPrefix(err.Error(), "1 profile of 4 ") {
		t.Errorf("left out: %v", err)
	}
}

// TestMergeIsBounded: a sum that takes too much memory ends the merge, and a profile that
// takes more than the share of those that are read ahead is read in its turn.
func TestMergeIsBounded(t *testing.T) {
	t.Parallel()
	paths := writeThickets(t, 6)
	one, _ := mergerOf(t, paths[:1], Options{})
	if err := one.Run(); err != nil {
		t.Fatal(err)
	}
	size := export.MapMemory(one.Sum)
	m, _ := mergerOf(t, paths, Options{MaxMemory: 3 * size})
	if err := m.Run(); !errors.Is(err, export.ErrMemory) || m.Merged == 0 || m.Merged == len(paths) {
		t.Errorf("%d merged in %d bytes, %v", m.Merged, 3*size, err)
	}
	one.memory.limit = size
	if hint, _ := advice.Of(one.checkSum()); !strings.Contains(hint, "--max-memory") || !errors.Is(one.checkSum(), export.ErrMemory) {
		t.Errorf("a sum that is too large: %v, advice %q", one.checkSum(), hint)
	}
	if few, _ := mergerOf(t, paths[:2], Options{MaxMemory: 8 * size}); few.Run() != nil || few.Merged != 2 {
		t.Errorf("%d merged in %d bytes", few.Merged, 8*size)
	}
}
