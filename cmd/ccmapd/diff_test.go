package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDiffOfOneWindow: a profile of runtime/pprof and one of ccmapd, of one program in one window, are the same to
// overlap and to diff, which say what they left out, in both directions.
func TestDiffOfOneWindow(t *testing.T) {
	t.Parallel()
	const ours, own = "testdata/window/ccmapd.pb.gz", "testdata/window/runtime.pb.gz"
	if r := runEngines(t, nil, "overlap", "--check", "--absorb", `^\[kernel\]$`, ours, own); r.code != exitOK || strings.Contains(r.stdout, "runtime.sysmon") {
		t.Errorf("without the kernel alone: %+v", r)
	}
	for _, pair := range [][]string{{ours, own}, {own, ours}} {
		diff := runEngines(t, nil, append([]string{"diff"}, pair...)...)
		if diff.code != exitOK || strings.Count(diff.stdout, "no significant change") != 3 {
			t.Errorf("%v: %+v", pair, diff)
		}
		overlap := runEngines(t, nil, append([]string{"overlap", "--check"}, pair...)...)
		if overlap.code != exitOK {
			t.Errorf("%v: %+v", pair, overlap)
		}
		for _, want := range []string{"note: time in the kernel (31.8% of " + ours, "note: runtime.sysmon (1.1% of " + ours, "note: runtime.asyncPreempt (9.4% of " + own} {
			if !strings.Contains(diff.stdout, want) || !strings.Contains(overlap.stdout, want) {
				t.Errorf("%v: no %q:\n%s%s", pair, want, diff.stdout, overlap.stdout)
			}
		}
	}
	var got struct {
		LeftOut []struct {
			What   string  `json:"what"`
			ShareA float64 `json:"share_a"`
		} `json:"left_out"`
	}
	r := runEngines(t, nil, "diff", "--json", ours, own)
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.LeftOut) != 3 || got.LeftOut[0].What != "time in the kernel" || got.LeftOut[0].ShareA < 30 {
		t.Errorf("%+v, %v", got, err)
	}
	if r := runEngines(t, nil, "diff", "--json", ours, ours); strings.Contains(r.stdout, "left_out") {
		t.Errorf("two profiles that have the same things lose some:\n%s", r.stdout)
	}
}
