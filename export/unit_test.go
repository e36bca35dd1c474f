package export

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/pprof/profile"

	"github.com/ccmapd/ccmapd/ccmap"
)

// measured is a map with a window, whose weights have a unit and are not its samples.
func measured(u ccmap.Unit) *ccmap.Map {
	m := pruned()
	m.Meta().Unit = u
	return m
}

// pprof tells sample types by their names: of two with one name it counts the first
// twice, and drops the other. So a profile of any unit has each name once, and is
// read back as it was.
func TestSampleTypesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{
		"cpu", "samples", "activations", "recent_samples", "recent_time", "time", "receiver_hits", "site_hits",
		"samples_weight", "samples_weight_weight", "inuse_space", "inuse_space_weight", "instructions",
	} {
		for _, base := range []string{"count", "bytes", ccmap.Nanoseconds} {
			u := ccmap.NewUnit(kind, base)
			s := measured(u).Snapshot()
			data := encode(t, Pprof, s)
			p, err := profile.ParseData([]byte(data))
			if err != nil {
				t.Fatal(err)
			}
			names := make(map[string]bool)
			for _, st := range p.SampleType {
				if names[st.Type] {
					t.Errorf("%v: two sample types %q", u, st.Type)
				}
				names[st.Type] = true
			}
			checkMergedSum(t, u, p)
			got := decode(t, data)
			if got.Meta().Unit != u || got.Total().Samples != s.Total().Samples || got.Total().Time != s.Total().Time {
				t.Errorf("%v is read as %v, %+v as %+v", u, got.Meta().Unit, s.Total(), got.Total())
			}
			recent, _ := s.Recent()
			if again, ok := got.Recent(); !ok || again.Total() != recent.Total() {
				t.Errorf("%v: the window is not read back", u)
			}
		}
	}
}

// checkMergedSum merges a profile with itself, as 'go tool pprof' does with its
// arguments, and looks for twice the values.
func checkMergedSum(t *testing.T, u ccmap.Unit, p *profile.Profile) {
	t.Helper()
	want := sumsOf(p, 2)
	two := []*profile.Profile{p, p.Copy()}
	if err := profile.CompatibilizeSampleTypes(two); err != nil {
		t.Fatalf("%v: %v", u, err)
	}
	merged, err := profile.Merge(two)
	if err != nil {
		t.Fatalf("%v: %v", u, err)
	}
	if err := merged.CheckValid(); err != nil {
		t.Errorf("%v: %v", u, err)
	}
	if diff := cmp.Diff(want, sumsOf(merged, 1)); diff != "" {
		t.Errorf("%v merged (-want +got):\n%s", u, diff)
	}
}

// sumsOf sums the values of all samples, by type.
func sumsOf(p *profile.Profile, times int64) map[string]int64 {
	sums := make(map[string]int64)
	for _, s := range p.Sample {
		for i, v := range s.Value {
			sums[p.SampleType[i].Type] += times * v
		}
	}
	return sums
}

// Folded stacks say no unit. CPU time is written with positions, samples are written
// as other tools do, and nothing else: no file is ever taken for what it is not.
func TestFoldedKeepsTheUnit(t *testing.T) {
	t.Parallel()
	for _, u := range []ccmap.Unit{ccmap.CPUTime, ccmap.SampleCount} {
		got := decode(t, encode(t, Folded, measured(u).Snapshot()))
		if want := measured(u).Snapshot().Total().Time; got.Meta().Unit != u || got.Total().Time != want {
			t.Errorf("%d of %v are read as %d of %v", want, u, got.Total().Time, got.Meta().Unit)
		}
	}
	for _, u := range []ccmap.Unit{ccmap.Instructions, ccmap.NewUnit("inuse_space", "bytes"), ccmap.NewUnit("samples", "bytes")} {
		var b strings.Builder
		err := Write(&b, Folded, measured(u).Snapshot())
		if err == nil || !strings.Contains(err.Error(), u.Kind()) || !strings.Contains(err.Error(), "XML, JSON or pprof") || b.Len() > 0 {
			t.Errorf("%v: %v; %d bytes", u, err, b.Len())
		}
	}
}

// Stacks of another tool are written as they were read, even where a name ends as our
// positions do.
func TestFoldedOfSamples(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"java;Main::run_[j] 12\n": "java;Main::run_[j] 12\n",
		`a\b;c\:d 3` + "\n":       `a\b;c\:d 3` + "\n",
		"main;f+3 7\n":            `main;f\x2b3 7` + "\n",
	} {
		once := encode(t, Folded, decode(t, in))
		if once != want {
			t.Errorf("%q becomes %q", in, once)
		}
		again := decode(t, once)
		if again.Meta().Unit != ccmap.SampleCount || encode(t, Folded, again) != once {
			t.Errorf("%q is read as %v", once, again.Meta().Unit)
		}
	}
	one := build([]ccmap.Method{{Name: "f+3"}}, []line{{[]ccmap.Frame{{Offset: 4}}, ccmap.Counters{Samples: 1, Time: 1}}})
	one.Meta().Unit = ccmap.SampleCount
	if got := decode(t, encode(t, Folded, one.Snapshot())); got.Meta().Unit != ccmap.SampleCount {
		t.Errorf("f+3 is taken for %v", got.Meta().Unit)
	}
}

// A unit is a kind and what it is counted in, and both are printed.
func TestReadRefusesBrokenUnits(t *testing.T) {
	t.Parallel()
	for meta, says := range map[string]string{
		`"unit":"bytes"`:                      `kind "" in unit "bytes"`,
		`"kind":"heap"`:                       `kind "heap" in unit ""`,
		`"kind":"a\u001b[31m","unit":"count"`: `kind "a\x1b[31m" in unit "count"`,
		`"kind":"a","unit":"\\x9b"`:           `kind "a" in unit "\x9b"`,
		`"kind":"a\\x0a","unit":"b"`:          `kind "a\n" in unit "b"`,
	} {
		_, _, err := Read(strings.NewReader(`{"ccmap_version":1,"meta":{`+meta+`}}`), ReadOptions{})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", meta, err, says)
		}
	}
	for _, pair := range []string{"/bytes", "a\x1b[31m/count", "a/b\x7f"} {
		if _, err := (valueTypes{list: valueTypesOf(pair)}).choose(""); err == nil {
			t.Errorf("sample type %q is accepted", pair)
		}
	}
	v, err := valueTypes{list: valueTypesOf("things/")}.choose("")
	if err != nil || v.unit != ccmap.NewUnit("things", "count") {
		t.Errorf("things without a unit: %v, %v", v.unit, err)
	}
}

// Go's compiler weighs by CPU time, or by samples of it.
func TestForPGOWantsCPUTime(t *testing.T) {
	t.Parallel()
	for u, refused := range map[ccmap.Unit]bool{
		ccmap.CPUTime: false, ccmap.SampleCount: false,
		ccmap.Instructions: true, ccmap.NewUnit("inuse_space", "bytes"): true, ccmap.NewUnit("delay", ccmap.Nanoseconds): true,
	} {
		m := shapes(map[ccmap.MethodID]int64{sqArea: 4})
		m.Meta().Unit = u
		_, err := ForPGO(m.Snapshot())
		if refused != (err != nil) || refused && (!strings.Contains(err.Error(), u.String()) || !strings.Contains(err.Error(), "--sample-type")) {
			t.Errorf("%v: %v", u, err)
		}
	}
}

// Every counter is scaled, bounded, written and read, alone and in the window.
func TestEveryCounter(t *testing.T) {
	t.Parallel()
	for k := range ccmap.NumCounters {
		var total ccmap.Counters
		*k.Of(&total) = 3
		if twice := newCounterScaler(Weight{2, 1}).scale(total); *k.Of(&twice) != 6 {
			t.Errorf("%v: twice %+v is %+v", k, total, twice)
		}
		most := ccmap.Counters{}
		*k.Of(&most) = math.MaxInt64
		if addCounts(&most, total) == nil {
			t.Errorf("%v overflows", k)
		}
		m := ccmap.New(ccmap.Options{Window: time.Minute})
		leaf := m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "f"}))
		m.Add(leaf, total)
		if k.Sampled() {
			m.AddRecent(leaf, total)
		}
		for _, f := range []Format{XML, JSON, Pprof} {
			if diff := diffContent(m.Snapshot(), decode(t, encode(t, f, m.Snapshot()))); diff != "" {
				t.Errorf("%v of %v (-want +got):\n%s", f, k, diff)
			}
		}
	}
}
