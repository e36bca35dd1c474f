package view

import (
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/profiletest"
	"github.com/ccmapd/ccmapd/sampler/wasm"
)

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
		"tables":      {"", 200, []ccmap.Method{unnamed}, []string{"80.0% is [unknown] and 80.0% is [truncated]", "80.0%: no function of the program is known", "Go 1.18 to 1.27"}},
		"JIT":         {"go1.26.8", 30, []ccmap.Method{unnamed}, []string{"37.5%: machine code of no file"}},
		"library":     {"go1.26.8", 30, []ccmap.Method{{Name: ccmap.UnknownName, Signature: "/usr/lib/libx.so"}}, []string{"/usr/lib/libx.so has no symbols: a build", "callers of libx.so are missing: no call frame information (.eh_frame) leads on from there"}},
		"C":           {"go1.26.8", 30, []ccmap.Method{{Name: "sqlite3Step", Module: "/usr/lib/libsqlite3.so"}}, []string{"0.0% is [unknown] and 37.5% is [truncated]", "callers of libsqlite3.so are missing: no call"}},
		"no frames":   {"go1.26.8", 30, []ccmap.Method{{Name: "spin", Module: "/usr/lib/libbare.so"}}, []string{"callers of libbare.so are missing: it has no call frame information", "CGO_CFLAGS"}},
		"unread":      {"go1.26.8", 30, []ccmap.Method{{Name: ccmap.UnknownName, Signature: "/usr/lib/libslow.so"}}, []string{"the symbols of /usr/lib/libslow.so were not read in time", "callers of libslow.so are missing: its call frame information was not read in time"}},
		"own C":       {"go1.26.8", 30, []ccmap.Method{{Name: "spin", Module: "0a11"}}, []string{"callers of C code of the program are missing"}},
		"no build id": {"go1.26.8", 30, []ccmap.Method{{Name: "spin", Module: "0a12"}}, []string{"callers of C code of the program are missing"}},
		"library's C": {"go1.26.8", 30, []ccmap.Method{{Name: "qsort", Module: "0b22"}}, []string{"callers of libc.so.6 are missing"}},
		"some C":      {"go1.26.8", 30, []ccmap.Method{{Name: "f", Module: "0c33"}}, []string{"callers of C code are missing"}},
		"late":        {"go1.26.8", 30, []ccmap.Method{{Name: "runtime.asmcgocall", File: "asm.s"}}, []string{"callers of C are missing: their calls had returned"}},
		"Go":          {"go1.26.8", 30, []ccmap.Method{{Name: "runtime.morestack"}}, []string{"in stacks that the runtime was about to move"}},
		"deep":        {"go1.26.8", 30, []ccmap.Method{{Name: "main.descend", File: "main.go"}}, []string{"their stacks did not fit into a sample"}},
		"hostile":     {"go1.26.8", 30, []ccmap.Method{{Name: ccmap.UnknownName, Signature: "/tmp/\x1b[2J"}}, []string{"/tmp/\uFFFD[2J has no symbols"}},
		"two of them": {"go1.26.8", 30, []ccmap.Method{unnamed, {Name: "f", Module: "/x.so"}}, []string{"18.8%: machine code", "18.8%: callers of x.so"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := profiletest.Blind(c.runtime, c.blind, c.methods...)
			m.Meta().Comments = []string{ccmap.CommentNoFrames + "/usr/lib/libbare.so", ccmap.CommentUnread + "/usr/lib/libslow.so"}
			p := New("a.json", m.Snapshot())
			text := p.describe(true)
			if len(c.want) == 0 {
				if !strings.Contains(text, "settled: ") || strings.Contains(text, "warning") || p.Blind().Misleads() {
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
			var d struct {
				Settled *struct{}
				Blind   struct {
					Misleads bool
					Warning  string
				}
			}
			decode(t, p.JSON(), &d)
			if d.Settled != nil || !d.Blind.Misleads || d.Blind.Warning != p.caution() {
				t.Errorf("JSON %+v, settled %+v", d.Blind, d.Settled)
			}
		})
	}
}

// TestCautionOfLostFrames: functions of C that were lost stand between [truncated] and those that they have called,
// whose file is at fault.
func TestCautionOfLostFrames(t *testing.T) {
	t.Parallel()
	m := ccmap.New(ccmap.Options{})
	at := m.Root()
	for _, f := range []ccmap.Method{{Name: ccmap.TruncatedName}, {Name: nativeName}, {Name: ccmap.UnknownName, Signature: "/lib/libc.so.6"}, {Name: "thread_native_entry"}} {
		at = m.Child(at, ccmap.NoOffset, m.Names().Intern(f))
	}
	m.Add(at, ccmap.Counters{Samples: 100, Time: 1e9})
	m.Meta().Comments = []string{ccmap.CommentUnread + "/lib/libc.so.6"}
	want := "100.0%: callers of libc.so.6 are missing: its call frame information was not read in time"
	if text := New("a.json", m.Snapshot()).caution(); !strings.Contains(text, want) {
		t.Errorf("lacks %q:\n%s", want, text)
	}
}

// TestCautionOfGuest: a guest has no C to compile again, and no frame pointers.
func TestCautionOfGuest(t *testing.T) {
	t.Parallel()
	m := profiletest.Blind("wazero", 30, ccmap.Method{Name: "main.parse", Module: "app.wasm"})
	m.Meta().Engine = wasm.SamplingEngine
	text := New("a.json", m.Snapshot()).caution()
	if !strings.Contains(text, "37.5%: callers in the guest are missing") || strings.Contains(text, "CFLAGS") {
		t.Errorf("of a guest:\n%s", text)
	}
}

// TestEngineNames: the views know the engines that sample from inside by their names.
func TestEngineNames(t *testing.T) {
	t.Parallel()
	if engineWasm != wasm.SamplingEngine || engineWasmExact != wasm.ExactEngine {
		t.Errorf("names are %q and %q, want %q and %q", engineWasm, engineWasmExact, wasm.SamplingEngine, wasm.ExactEngine)
	}
}
