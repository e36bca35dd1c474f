package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/ccmap"
)

func TestLoss(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		meta ccmap.Meta
		want []string
	}{
		{ccmap.Meta{}, nil},
		{ccmap.Meta{Engine: "perf"}, []string{"none lost"}},
		{ccmap.Meta{Loss: ccmap.Loss{Source: 2, Queue: 1, Throttled: 1}}, []string{"3 samples lost (75.0%)", "throttled 1 time"}},
	} {
		if diff := cmp.Diff(test.want, loss(test.meta, 1)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.meta, diff)
		}
	}
}
