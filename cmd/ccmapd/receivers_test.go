package main

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/profiletest"
)

// TestPhasesOfCaughtCalls: caught calls are of all phases of the program, of one, or
// of the last.
func TestPhasesOfCaughtCalls(t *testing.T) {
	t.Parallel()
	m := profiletest.Drawing(100)
	triangle := m.Names().Intern(ccmap.Method{Name: "main.Triangle.Area"})
	draw, _ := m.Names().Lookup("main.draw", "")
	m.AddPoint(ccmap.Point{
		Origin: ccmap.OriginBurst, Method: draw, Offset: 2, Phase: 3, Nulls: ccmap.NullsUnknown,
		Values: []ccmap.PointValue{{Value: uint64(triangle), Count: 300}},
	})
	file := filepath.Join(t.TempDir(), "a.json")
	if err := export.WriteFile(file, m.Snapshot()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		flags string
		calls int64
		types int
		note  string
	}{
		{"", 500, 3, "500 calls caught by breakpoints, in the phases 1, 4 of the program: --phase N has one of them."},
		{"--phase 1", 200, 2, "200 calls caught by breakpoints, in phase 1 of the program."},
		{"--phase last", 300, 1, "300 calls caught by breakpoints, in phase 4 of the program."},
		{"--recent", 300, 1, "in phase 4 of the program."},
		{"--recent --phase 1", 200, 2, "in phase 1 of the program."},
	} {
		args := append(strings.Fields(test.flags), file)
		code, out, errs := runWith(append([]string{"receivers", "--json"}, args...), nil)
		var got struct {
			Caught int64            `json:"caught_calls"`
			Phases map[string]int64 `json:"phases"`
			Sites  []receiversSite  `json:"sites"`
		}
		if err := json.Unmarshal([]byte(out), &got); code != exitOK || err != nil {
			t.Fatalf("%q exits with %d, %v: %s", test.flags, code, err, errs)
		}
		if calls := got.Sites[0].ByCalls; got.Caught != test.calls || calls.Seen != test.calls || len(calls.Receivers) != test.types {
			t.Errorf("%q: %d calls, of the site %+v; want %d of %d types", test.flags, got.Caught, calls, test.calls, test.types)
		}
		if !maps.Equal(got.Phases, map[string]int64{"1": 200, "4": 300}) {
			t.Errorf("%q: phases %v", test.flags, got.Phases)
		}
		if _, out, _ := runWith(append([]string{"receivers"}, args...), nil); !strings.Contains(out, test.note) {
			t.Errorf("%q: no %q in\n%s", test.flags, test.note, out)
		}
	}
	if code, _, errs := runWith([]string{"points", "--phase", "2", file}, nil); code != exitFailed || !strings.Contains(errs, "has no caught calls of phase 2, but of 1, 4") {
		t.Errorf("exits with %d: %s", code, errs)
	}
	if code, out, errs := runWith([]string{"points", "--phase", "4", "--origin", "burst", file}, nil); code != exitOK || !strings.Contains(out, "1 point of 1 method, in phase 4 of the program") {
		t.Errorf("exits with %d: %s%s", code, out, errs)
	}
}

// receiversSite is a call site in the JSON of receivers, as far as tests read it.
type receiversSite struct {
	Caller struct {
		Method string
		Line   int32
	}
	Verdict, Decisive string
	BySamples         *receiversEvidence `json:"by_samples"`
	ByCalls           *receiversEvidence `json:"by_calls"`
}

type receiversEvidence struct {
	Seen      int64
	Entropy   float64 `json:"entropy_bits"`
	Receivers []struct {
		Method, Receiver string
		Seen             int64
		SharePercent     float64 `json:"share_percent"`
	}
	Splits []struct {
		Depth   int
		Verdict string
		Entropy float64 `json:"entropy_bits"`
	}
}
