package compare_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/ccmap/compare"
)

// TestUnlikeProfilesAreNotCompared: the error names both units. Samples whose unit
// nobody says are compared by number, calls always.
func TestUnlikeProfilesAreNotCompared(t *testing.T) {
	t.Parallel()
	of := func(u ccmap.Unit) *ccmap.Snapshot {
		m := ccmap.New(ccmap.Options{})
		m.Meta().Unit = u
		m.Add(m.Child(m.Root(), ccmap.NoOffset, m.Names().Intern(ccmap.Method{Name: "f"})), ccmap.Counters{Samples: 1, Time: 1, Activations: 1})
		return m.Snapshot()
	}
	cpu, heap, counted := of(ccmap.CPUTime), of(ccmap.NewUnit("inuse_space", "bytes")), of(ccmap.SampleCount)
	for _, test := range []struct {
		a, b    *ccmap.Snapshot
		options compare.Options
		refused bool
	}{
		{cpu, heap, compare.Options{}, true},
		{cpu, heap, compare.Options{Weight: compare.BySamples}, true},
		{cpu, heap, compare.Options{Weight: compare.ByActivations}, false},
		{cpu, heap, compare.Options{AnyUnit: true}, false},
		{heap, heap, compare.Options{}, false},
		{cpu, counted, compare.Options{}, true},
		{cpu, counted, compare.Options{Weight: compare.BySamples}, false},
	} {
		_, err := compare.Compare(test.a, test.b, test.options)
		if errors.Is(err, ccmap.ErrUnlike) != test.refused {
			t.Errorf("%v and %v, %+v: %v", test.a.Meta().Unit, test.b.Meta().Unit, test.options, err)
		}
	}
	_, err := compare.Differences(cpu, heap, compare.DiffOptions{})
	if !errors.Is(err, ccmap.ErrUnlike) || !strings.Contains(err.Error(), `"cpu/nanoseconds" and "inuse_space/bytes"`) {
		t.Errorf("differences: %v", err)
	}
}

func TestWeightText(t *testing.T) {
	t.Parallel()
	for _, w := range weights {
		text, err := w.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var back compare.Weight
		if err := back.UnmarshalText(text); err != nil || back != w {
			t.Errorf("%q is read as %v, %v", text, back, err)
		}
	}
	if _, err := compare.Weight(9).MarshalText(); err == nil {
		t.Error("Weight(9) has a text")
	}
	w := compare.BySamples
	if err := w.UnmarshalText([]byte("money")); err == nil || w != compare.BySamples {
		t.Errorf("weight by money is read as %v, %v", w, err)
	}
}
