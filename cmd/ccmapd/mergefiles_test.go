package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/mergefiles"
)

// thicket is a map of many contexts of few edges.
func thicket(seed uint64) *ccmap.Map {
	rng := rand.New(rand.NewPCG(seed, 1))
	m := ccmap.New(ccmap.Options{})
	methods := []ccmap.MethodID{m.Names().Intern(ccmap.Method{Name: "a"}), m.Names().Intern(ccmap.Method{Name: "b"})}
	for range 2000 {
		n := m.Root()
		for range 15 {
			n = m.Child(n, 1, methods[rng.IntN(2)])
		}
		m.Add(n, ccmap.Counters{Samples: 1, Time: rng.Int64N(100)})
	}
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

// Whichever profile is read first, they are added up in their order.
func TestMergeKeepsTheOrder(t *testing.T) {
	t.Parallel()
	paths := writeThickets(t, 20)
	out := filepath.Join(t.TempDir(), "sum.json")
	if code, _, errs := runWith(append([]string{"merge", "-o", out}, paths...), nil); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	m, _, err := export.ReadFile(out, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for i := range paths {
		want = append(want, fmt.Sprint("seed ", i))
	}
	if diff := cmp.Diff(want, m.Meta().Comments); diff != "" {
		t.Error(diff)
	}
	if got := m.Snapshot().Total().Samples; got != 20*2000 {
		t.Errorf("%d samples", got)
	}
}

func TestMergePrunesToItsBudget(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "sum.json")
	args := append([]string{"merge", "-o", out, "--max-memory", "400KiB"}, writeThickets(t, 4)...)
	if code, _, errs := runWith(args, nil); code != exitOK {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	m, _, err := export.ReadFile(out, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if s := m.Snapshot(); !s.Pruned() || s.PrunedTotal().Samples == 0 || s.Total().Samples != 4*2000 {
		t.Errorf("pruned %t, %v of %v", s.Pruned(), s.PrunedTotal(), s.Total())
	}
}

// An error ends it at once, without waiting for what is read ahead.
func TestMergeStopsAtTheFirstError(t *testing.T) {
	t.Parallel()
	paths := append([]string{"missing"}, writeThickets(t, 5)...)
	o := mergefiles.Options{Stderr: new(strings.Builder), MaxMemory: export.DefaultMaxMemory()}
	for _, path := range paths {
		o.Inputs = append(o.Inputs, mergefiles.Input{Path: path})
	}
	m := mergefiles.New(o)
	if err := m.Run(); !errors.Is(err, fs.ErrNotExist) || m.Merged != 0 {
		t.Errorf("%d merged, %v", m.Merged, err)
	}
}
