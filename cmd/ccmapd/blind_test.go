package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/manager"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

// blindProfile has 50 samples of main.main, and blind ones that are truncated and
// have one of the methods innermost.
func blindProfile(t *testing.T, runtime string, blind int, methods ...ccmap.Method) *profile {
	t.Helper()
	m := ccmap.New(ccmap.Options{})
	fold := func(truncated bool, method ccmap.Method) {
		frames := []ccmap.Frame{{Method: m.Names().Intern(method), Offset: ccmap.NoOffset}}
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown, Truncated: truncated})
	}
	for range 50 {
		fold(false, ccmap.Method{Name: "main.main", File: "main.go"})
	}
	for i := range blind {
		fold(true, methods[i%len(methods)])
	}
	m.Meta().Target = ccmap.Target{Runtime: runtime, BuildID: "0a11", Executable: "/bin/server"}
	m.Names().SetMapping("0a12", ccmap.Mapping{File: "/bin/server", Start: 1, Limit: 2})
	m.Names().SetMapping("0b22", ccmap.Mapping{File: "/usr/lib/libc.so.6", Start: 1, Limit: 2})
	m.Meta().Settled = ccmap.Settled{Methods: 99, Edges: 98, Contexts: 97, Samples: 1000}
	return newProfile("a.json", m.Snapshot())
}

// TestCaution: a profile that misleads says so first, why, and what to do, and does
// not call itself settled.
func TestCaution(t *testing.T) {
	t.Parallel()
	unnamed := ccmap.Method{Name: ccmap.UnknownName}
	for name, c := range map[string]struct {
		runtime string
		blind   int
		methods []ccmap.Method
		want    []string
	}{
		"few":         {"go1.26.8", 5, []ccmap.Method{unnamed}, nil},
		"tables":      {"", 200, []ccmap.Method{unnamed}, []string{"80.0% is [unknown] and 80.0% is [truncated]", "80.0%: no function of the program is known", "Go 1.20 to 1.27"}},
		"JIT":         {"go1.26.8", 30, []ccmap.Method{unnamed}, []string{"37.5%: machine code of no file"}},
		"library":     {"go1.26.8", 30, []ccmap.Method{{Name: ccmap.UnknownName, Signature: "/usr/lib/libx.so"}}, []string{"/usr/lib/libx.so has no symbols: install", "callers of libx.so are missing", "it has no call frame information"}},
		"C":           {"go1.26.8", 30, []ccmap.Method{{Name: "sqlite3Step", Module: "/usr/lib/libsqlite3.so"}}, []string{"0.0% is [unknown] and 37.5% is [truncated]", "callers of libsqlite3.so are missing", "CGO_CFLAGS"}},
		"own C":       {"go1.26.8", 30, []ccmap.Method{{Name: "spin", Module: "0a11"}}, []string{"callers of C code of the program are missing"}},
		"no build id": {"go1.26.8", 30, []ccmap.Method{{Name: "spin", Module: "0a12"}}, []string{"callers of C code of the program are missing"}},
		"library's C": {"go1.26.8", 30, []ccmap.Method{{Name: "qsort", Module: "0b22"}}, []string{"callers of libc.so.6 are missing"}},
		"some C":      {"go1.26.8", 30, []ccmap.Method{{Name: "f", Module: "0c33"}}, []string{"callers of C code are missing"}},
		"late":        {"go1.26.8", 30, []ccmap.Method{{Name: "runtime.asmcgocall", File: "asm.s"}}, []string{"callers of C are missing: their calls had returned"}},
		"Go":          {"go1.26.8", 30, []ccmap.Method{{Name: "runtime.morestack"}}, []string{"callers of Go functions are missing"}},
		"hostile":     {"go1.26.8", 30, []ccmap.Method{{Name: ccmap.UnknownName, Signature: "/tmp/\x1b[2J"}}, []string{"/tmp/\uFFFD[2J has no symbols"}},
		"two of them": {"go1.26.8", 30, []ccmap.Method{unnamed, {Name: "f", Module: "/x.so"}}, []string{"18.8%: machine code", "18.8%: callers of x.so"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := blindProfile(t, c.runtime, c.blind, c.methods...)
			text := p.describe()
			if len(c.want) == 0 {
				if !strings.Contains(text, "settled: ") || strings.Contains(text, "warning") || p.blindJSON().Misleads {
					t.Errorf("of a profile that does not mislead:\n%s", text)
				}
				return
			}
			if !strings.HasPrefix(text, "warning: this profile misleads") || strings.Contains(text, "settled: ") {
				t.Errorf("does not begin with a warning, or is settled:\n%s", text)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("lacks %q:\n%s", want, text)
				}
			}
			if d := describeJSON(p); d.Settled != nil || !d.Blind.Misleads || d.Blind.Warning != p.caution() {
				t.Errorf("JSON %+v, settled %+v", d.Blind, d.Settled)
			}
		})
	}
}

// TestCautionOfGuest: a guest has no C to compile again, and no frame pointers.
func TestCautionOfGuest(t *testing.T) {
	t.Parallel()
	m := blindProfile(t, "wazero", 30, ccmap.Method{Name: "main.parse", Module: "app.wasm"}).Snapshot
	of := ccmap.New(ccmap.Options{})
	if err := of.Merge(m); err != nil {
		t.Fatal(err)
	}
	of.Meta().Engine = wasm.SamplingEngine
	text := newProfile("a.json", of.Snapshot()).caution()
	if !strings.Contains(text, "37.5%: callers in the guest are missing") || strings.Contains(text, "CFLAGS") {
		t.Errorf("of a guest:\n%s", text)
	}
}

// TestReportBeginsWithCaution: the report and top of a file say it first, once.
func TestReportBeginsWithCaution(t *testing.T) {
	t.Parallel()
	p := blindProfile(t, "", 200, ccmap.Method{Name: ccmap.UnknownName})
	file := filepath.Join(t.TempDir(), "a.json")
	if err := export.WriteFile(file, p.Snapshot); err != nil {
		t.Fatal(err)
	}
	s := &session{flags: newSamplingFlags(nil), chosen: chosen{name: "fake", source: &fakeSource{}}}
	s.flags.until.Goal = manager.Goal{Of: manager.Edges, Percent: 95}
	var report bytes.Buffer
	if err := s.report(&report, manager.Report{Snapshot: p.Snapshot, Written: []string{file}}); err != nil {
		t.Fatal(err)
	}
	top := runEngines(t, nil, "top", file)
	for _, text := range []string{report.String(), top.stdout} {
		if !strings.HasPrefix(text, "warning: this profile misleads") || strings.Count(text, "misleads") != 1 || strings.Contains(text, "settled: ") {
			t.Errorf("does not begin with one warning, or is settled:\n%s", text)
		}
	}
	if text := report.String(); !strings.Contains(text, "Edges were to settle to 95 %: that says nothing") {
		t.Errorf("lacks why the goal was not reached:\n%s", text)
	}
	var got struct{ Profile profileJSON }
	if err := json.Unmarshal([]byte(runEngines(t, nil, "top", "--json", file).stdout), &got); err != nil || !got.Profile.Blind.Misleads {
		t.Errorf("JSON %+v, %v", got, err)
	}
}

func TestLiveLineClaimsNothing(t *testing.T) {
	t.Parallel()
	settled := ccmap.Settled{Methods: 99, Edges: 98, Contexts: 97}
	line := formatStatus(manager.Status{}, manager.Status{Settled: settled, Blind: ccmap.Blind{Unknown: 89.6}})
	if !strings.Contains(line, "MISLEADS: unknown 90%, truncated 0%") || strings.Contains(line, "settled") {
		t.Errorf("live line %q", line)
	}
}
