package main

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestDiffOfOneWindow: a profile of runtime/pprof and one of ccmapd, of one program in one window, are the same to
// overlap without the kernel, and so they are to diff, which says what it left out, in both directions.
func TestDiffOfOneWindow(t *testing.T) {
	t.Parallel()
	const ours, own = "testdata/window/ccmapd.pb.gz", "testdata/window/runtime.pb.gz"
	if r := runEngines(t, nil, "overlap", "--check", "--absorb", `^\[kernel\]$`, ours, own); r.code != exitOK {
		t.Errorf("%+v", r)
	}
	for _, pair := range [][]string{{ours, own}, {own, ours}} {
		r := runEngines(t, nil, append([]string{"diff"}, pair...)...)
		if r.code != exitOK || strings.Count(r.stdout, "no significant change") != 3 {
			t.Errorf("%v: %+v", pair, r)
		}
		for _, want := range []string{"note: time in the kernel (31.8% of", "note: runtime.sysmon (1.1% of", "note: runtime.asyncPreempt (9.4% of"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("%v: no %q:\n%s", pair, want, r.stdout)
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
