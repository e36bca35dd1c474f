package store

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// noon is when the builds of these tests begin.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// drawRuns draws runs of builds, one after the other, each with the commit of its build.
func drawRuns(t *rapid.T) []Entry {
	commits := rapid.SliceOfN(rapid.IntRange(-1, 5), 1, 5).Draw(t, "days of the commits of builds; -1: not known")
	var all []Entry
	for i, b := range rapid.SliceOfN(rapid.IntRange(0, len(commits)-1), 1, 12).Draw(t, "builds that run") {
		e := Entry{Kind: KindPeriod, Build: fmt.Sprint("b", b), From: noon.Add(time.Duration(i) * time.Hour)}
		if e.To = e.From.Add(time.Hour); commits[b] >= 0 {
			e.Commit = noon.AddDate(0, 0, commits[b]-10)
		}
		all = append(all, e)
	}
	return all
}

// TestSeries: a series has each build once; of two builds with commits the earlier commit is first, or for one commit
// the build that was seen first; of two without commits the one that was seen first. The order of the entries does not
// count. The present build is the one of the last run.
func TestSeries(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		runs := drawRuns(t)
		s := SeriesOf(runs)
		for i, b := range s {
			for _, a := range s[:i] {
				switch {
				case a.Name == b.Name:
					t.Errorf("%s is in the series twice", a)
				case a.Commit.IsZero() != b.Commit.IsZero():
				case cmp.Or(a.Commit.Compare(b.Commit), a.First.Compare(b.First)) > 0:
					t.Errorf("%s, first seen %v, precedes %s, first seen %v", a, a.First, b, b.First)
				}
			}
		}
		if got, want := s.Present().Name, runs[len(runs)-1].Build; got != want {
			t.Errorf("%s is present, want %s", got, want)
		}
		if other := SeriesOf(rapid.Permutation(runs).Draw(t, "entries")); !slices.Equal(s, other) {
			t.Errorf("%v, and in another order of entries %v", s, other)
		}
	})
}

// TestNearest: the nearest build is the build itself if it is wanted, or else the last one before it, or else the first
// one after it.
func TestNearest(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		s := SeriesOf(drawRuns(t))
		wanted := make([]bool, len(s))
		for i := range wanted {
			wanted[i] = rapid.Bool().Draw(t, "wanted")
		}
		is := func(b Build) bool { return wanted[s.index(b.Name)] }
		at := rapid.IntRange(0, len(s)-1).Draw(t, "at")
		near, found := s.Nearest(s[at].Name, is)
		if found != slices.Contains(wanted, true) || found && !is(near) {
			t.Fatalf("%v, found %v of %v", near, found, wanted)
		}
		nearer := func(from, to int) bool { return from < to && slices.Contains(wanted[from:to], true) }
		if i := s.index(near.Name); found && (i <= at && nearer(i+1, at+1) || i > at && nearer(0, i)) {
			t.Errorf("build %d is nearest to %d of %v", i, at, wanted)
		}
	})
}

// TestBestAfterRollback: after A, B and A again the best profile is A's own, and the one of a new build without a best
// profile is B's, whose commit is before: both say so. A name with a build means it, whatever runs.
func TestBestAfterRollback(t *testing.T) {
	t.Parallel()
	run := func(kind Kind, build string, hour, day int) Entry {
		return Entry{Kind: kind, Target: "web", Build: build, From: noon.Add(time.Duration(hour) * time.Hour), To: noon.Add(time.Duration(hour+1) * time.Hour), Commit: noon.AddDate(0, 0, day)}
	}
	rolledBack := []Entry{run(KindBest, "a", 0, -9), run(KindPeriod, "a", 0, -9), run(KindBest, "b", 1, -8), run(KindPeriod, "b", 1, -8), run(KindRunning, "a", 2, -9)}
	next := append(slices.Clone(rolledBack), run(KindRunning, "c", 3, -7))
	for name, c := range map[string]struct {
		all             []Entry
		at, build, says string
	}{
		"rolled back":   {rolledBack, "", "a", ""},
		"a new build":   {next, "", "b", "of build b, committed 2026-11-12 12:00:00, the one before c, committed 2026-11-13 12:00:00, which has none yet"},
		"by its name":   {next, "a", "a", ""},
		"an older one":  {append(slices.Clone(rolledBack), run(KindRunning, "z", 3, -20)), "", "a", "of build a, committed 2026-11-11 12:00:00, the one after z, committed 2026-10-31 12:00:00, which has none yet"},
		"none but best": {rolledBack[:1], "", "a", ""},
	} {
		got, err := ofBuild(c.all, Reference{Kind: "best", Name: "web", At: c.at}, KindBest)
		if err != nil || len(got) != 1 || got[0].Build != c.build || got[0].Why != c.says {
			t.Errorf("%s: %+v, %v; want build %s, %q", name, got, err, c.build, c.says)
		}
	}
}

// TestEarlierIndex: the index of an earlier version is read, and knows no commits.
func TestEarlierIndex(t *testing.T) {
	t.Parallel()
	const name = "targets/web/a/cpu/x"
	is := indexed{commit: 9, size: 1, time: 2, from: 3, to: 4, interval: 5, unitBase: "ns", quality: Quality{Samples: 6}}
	now := (&index{files: map[string]indexed{name: is}}).append(nil)
	for magic, want := range map[string]int64{indexMagic: 9, indexBefore: 0} {
		body := now[len(indexMagic) : len(now)-4]
		if magic == indexBefore {
			at := 1 + len(name)
			body = slices.Concat(body[:at], body[at+8:])
		}
		b := append([]byte(magic), body...)
		files, err := parseIndex(binary.LittleEndian.AppendUint32(b, crc32.Checksum(body, castagnoli)))
		if is.commit = want; err != nil || files[name] != is {
			t.Errorf("%q: %+v, %v; want %+v", magic, files[name], err, is)
		}
	}
}
