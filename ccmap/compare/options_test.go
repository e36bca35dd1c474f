package compare_test

import (
	"testing"

	"github.com/ccmapd/ccmapd/ccmap/compare"
)

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
