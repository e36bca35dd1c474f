package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/ccmapd/ccmapd/internal/gosym"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/internal/jfr"
	"github.com/ccmapd/ccmapd/sampler/internal/pprofhttp"
)

// TestDiagnoseEngine: a diagnosis has the reason why an engine is refused, and its watchpoints.
func TestDiagnoseEngine(t *testing.T) {
	t.Parallel()
	if d := working("able", 3).Diagnose(t.Context(), os.Getpid(), 0); !cmp.Equal(d, Diagnosis{
		Engine: "able", Permitted: true, Watchpoints: 3, Features: []string{"time in the kernel", "hardware watchpoints", "caught calls"},
	}) {
		t.Errorf("able: %+v", d)
	}
	d := refusing("none", sampler.ErrPermission).Diagnose(t.Context(), os.Getpid(), tryFor)
	if d.Permitted || !errors.Is(d.Err, sampler.ErrPermission) || d.Reason != sampler.ErrPermission.Error() || d.Features == nil {
		t.Errorf("refused: %+v", d)
	}
}

// TestNotes: a report says what is left in a JVM, and how one is woken that listens to nobody.
func TestNotes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		engine     Engine
		note, cure string
	}{
		"another engine": {refusing("bpf", sampler.ErrPermission), "", ""},
		"recorded":       {working(jfr.Engine, 0), "it has started a recording in the JVM, and stopped it", ""},
		"asleep":         {refusing(jfr.Engine, errors.Join(jfr.ErrAsleep, sampler.ErrPermission)), "it has started no recording in the JVM", fmt.Sprintf("jcmd %d VM.version", os.Getpid())},
		"of others":      {refusing(jfr.Engine, errors.Join(jfr.ErrOthers, sampler.ErrPermission)), "it has started no recording in the JVM", "--engine jfr"},
		"at the start":   {refusing(jfr.Engine, errors.Join(jfr.ErrStart, sampler.ErrUnsupported)), notStopped, ""},
		"at the stop": {Engine{jfr.Engine, nil, func(context.Context, sampler.ProcessOptions) (Source, error) {
			return proving{err: errors.New("no answer")}, nil
		}}, notStopped, ""},
	} {
		d := Diagnose(t.Context(), []Engine{c.engine}, Patient{PID: os.Getpid()}).Engines[0]
		if d.Note != c.note || c.cure != "" && !strings.Contains(d.Cure, c.cure) {
			t.Errorf("%s: note %q, cure %q", name, d.Note, d.Cure)
		}
	}
}

// proving is a source that has a proof of its own.
type proving struct {
	fakeSource
	err error
}

func (s proving) Prove(context.Context) (string, error) {
	if s.err != nil {
		return "", s.err
	}
	return "a profile", nil
}

func (s proving) Run(context.Context) (sampler.Ending, error) {
	return sampler.Ending{}, errors.New("run")
}

// TestDiagnoseEndpoint: a source with a proof of its own is not run, and only its proof counts.
func TestDiagnoseEndpoint(t *testing.T) {
	t.Parallel()
	of := func(err error) Engine {
		return Engine{pprofhttp.Engine, nil, func(context.Context, sampler.ProcessOptions) (Source, error) { return proving{err: err}, nil }}
	}
	if d := of(nil).Diagnose(t.Context(), os.Getpid(), tryFor); !d.Permitted || d.Found != "a profile" {
		t.Errorf("proves: %+v", d)
	}
	if d := of(errors.New("in use")).Diagnose(t.Context(), os.Getpid(), tryFor); d.Permitted || d.Reason != "in use" || d.Found != "" {
		t.Errorf("does not: %+v", d)
	}
}

// TestCureOfNoEndpoint: a report says that a Go program could serve its own profiles where no engine can
// sample it, and not otherwise. It changes no choice.
func TestCureOfNoEndpoint(t *testing.T) {
	t.Parallel()
	none := refusing(pprofhttp.Engine, pprofhttp.ErrNoEndpoint)
	for name, c := range map[string]struct {
		others []Engine
		pid    int
		cured  bool
	}{
		"refused":         {[]Engine{refusing("bpf", sampler.ErrPermission), refusing("jfr", jfr.ErrNotJVM)}, os.Getpid(), true},
		"a JVM":           {[]Engine{refusing("bpf", sampler.ErrPermission), refusing("jfr", sampler.ErrUnsupported)}, os.Getpid(), false},
		"another program": {[]Engine{refusing("bpf", sampler.ErrNotManaged)}, os.Getpid(), false},
		"ccmapd itself":   {[]Engine{refusing("bpf", sampler.ErrPermission)}, 0, false},
		"permitted":       {[]Engine{working("bpf", 0)}, os.Getpid(), false},
	} {
		r := Diagnose(t.Context(), append(c.others, none), Patient{PID: c.pid})
		last := r.Engines[len(r.Engines)-1]
		if cured := last.Engine == pprofhttp.Engine && strings.Contains(last.Cure, "net/http/pprof"); cured != c.cured {
			t.Errorf("%s: %+v", name, r.Engines)
		}
		if _, err := Attach(t.Context(), append(c.others, none), Auto, sampler.ProcessOptions{}); (err == nil) != (r.Err == nil) || err != nil && err.Error() != r.Err.Error() {
			t.Errorf("%s: attach says %v, the report %v", name, err, r.Err)
		}
	}
}

// TestDiagnosisChoosesAsAttach: whatever engines answer, a report has the engine that Attach
// takes, or its error.
func TestDiagnosisChoosesAsAttach(t *testing.T) {
	t.Parallel()
	answers := []error{nil, sampler.ErrPermission, sampler.ErrUnsupported, sampler.ErrNoProcess, sampler.ErrNotManaged, errors.New("too many open files")}
	rapid.Check(t, func(t *rapid.T) {
		var all []Engine
		var r Report
		for i, answer := range rapid.SliceOfN(rapid.SampledFrom(answers), 1, 4).Draw(t, "answers") {
			e := working(fmt.Sprint("engine", i), 0)
			if answer != nil {
				e = refusing(e.Name, answer)
			}
			all = append(all, e)
			r.Engines = append(r.Engines, e.Diagnose(t.Context(), os.Getpid(), 0))
		}
		r.choose(nil)
		got, err := Attach(t.Context(), all, Auto, sampler.ProcessOptions{})
		took := ""
		if err == nil {
			took = got.Source.Info().Engine
		}
		if r.Auto != took || (r.Err == nil) != (err == nil) || err != nil && r.Err.Error() != err.Error() {
			t.Errorf("report: %q, %v; attach: %q, %v", r.Auto, r.Err, took, err)
		}
		code := ""
		switch {
		case errors.Is(err, sampler.ErrNoProcess), errors.Is(err, sampler.ErrNotManaged):
			code = CodeNoTarget
		case err != nil:
			code = CodeNotPermitted
		}
		if r.Code != code || (r.Reason == "") != (err == nil) {
			t.Errorf("%v has code %q, %q", err, r.Code, r.Reason)
		}
	})
}

// TestChecks: each answer of the kernel that forbids something fails its own check, which says
// what is wanted; and an engine that is refused gets that cure.
func TestChecks(t *testing.T) {
	t.Parallel()
	able := machine{
		paranoid: 2, mlockKB: 516, memlock: 64 << 10, files: 1 << 20, cpus: 64, threads: 100, ptrace: true, perfmon: true,
		self: "/opt/it's/ccmapd", filter: "0", pids: initialPIDs, users: initialUsers, registers: 4,
	}
	if failed := failedOf(able.checks()); len(failed) > 0 {
		t.Errorf("failed, on an able machine: %v", failed)
	}
	for _, test := range []struct {
		check, engine string
		change        func(*machine)
		found, cure   string // parts
	}{
		{checkParanoid, "perf", func(m *machine) { m.paranoid, m.perfmon = 3, false }, "is 3", "sysctl -w kernel.perf_event_paranoid=2"},
		{checkMemlock, "perf", func(m *machine) { m.mlockKB = 64 }, "64 KiB", "sysctl -w kernel.perf_event_mlock_kb=516"},
		{checkFiles, "perf", func(m *machine) { m.files = 1024 }, "RLIMIT_NOFILE is 1024; engine perf opens 6592 for 100 threads on 64 CPUs", "ulimit -n 6592"},
		{checkCapabilities, "bpf", func(m *machine) { m.lackingCPUs, m.permitted = "cap_bpf", "cap_perfmon" }, "permitted: cap_perfmon; ambient: none", `setcap cap_bpf,cap_perfmon,cap_sys_ptrace+p '/opt/it'\''s/ccmapd'`},
		{checkCalls, "perf", func(m *machine) { m.filter, m.refused = "2", []string{"perf_event_open (operation not permitted)"} }, "seccomp mode 2; refused: perf_event_open", "docker run"},
		{checkYama, "memory", func(m *machine) { m.yama, m.ptrace = 1, false }, "ptrace_scope is 1", "kernel.yama.ptrace_scope=0"},
		{checkLockdown, "bpf", func(m *machine) { m.lockdown = "none integrity [confidentiality]" }, "[confidentiality]", "lockdown=integrity"},
		{checkNamespaces, "bpf", func(m *machine) { m.users = "user:[1]" }, "user:[1]", "--userns=host"},
		{checkRegisters, "", func(m *machine) { m.registers = 0 }, "0 of 4", ""},
	} {
		m := able
		test.change(&m)
		checks := m.checks()
		i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == test.check })
		if c := checks[i]; c.OK || !strings.Contains(c.Found, test.found) || !strings.Contains(c.Cure, test.cure) || c.Wanted == "" {
			t.Errorf("%s: %+v", test.check, c)
		}
		if test.engine != "" && cureOf(test.engine, checks) != checks[i].Cure {
			t.Errorf("%s: the cure of engine %s is %q", test.check, test.engine, cureOf(test.engine, checks))
		}
	}
}

// TestCureByYama: where Yama forbids to read a program's memory, the program cannot be read either, and has no cure.
func TestCureByYama(t *testing.T) {
	t.Parallel()
	checks := []Check{{Name: checkProgram}, {Name: checkOwner, OK: true}, {Name: checkYama, Cure: "sysctl"}}
	for _, engine := range []string{"perf", "memory"} {
		if got := cureOf(engine, checks); got != "sysctl" {
			t.Errorf("%s: %q", engine, got)
		}
	}
}

// TestSymbolsCheck: a program that was stripped has no names of C functions. Others need none.
func TestSymbolsCheck(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		origin gosym.Origin
		ok     bool
		found  string
	}{
		{gosym.Origin{FoundBy: "section x", Read: true}, true, "tables of Go by section x; stripped: no; cgo: no"},
		{gosym.Origin{FoundBy: "section x", Read: true, Stripped: true}, true, "tables of Go by section x; stripped: yes; cgo: no"},
		{gosym.Origin{FoundBy: "section x", Read: true, Cgo: true}, true, "tables of Go by section x; stripped: no; cgo: yes"},
		{gosym.Origin{FoundBy: "section x", Read: true, Stripped: true, Cgo: true}, false, "tables of Go by section x; stripped: yes; cgo: yes"},
		{gosym.Origin{FoundBy: "memory", Cgo: true}, false, "tables of Go by memory; stripped: not known, because its file cannot be read; cgo: yes"},
	} {
		if c := symbolsCheck(test.origin, "make"); c.OK != test.ok || c.Found != test.found || c.Cure != "make" {
			t.Errorf("%+v: %+v", test.origin, c)
		}
	}
}

// TestUnstripped: the user of a package's program has not built it, and has no PACKAGE for go build.
func TestUnstripped(t *testing.T) {
	t.Parallel()
	const own = "go build -ldflags=-w PACKAGE"
	for _, test := range []struct {
		exe    string
		debian bool
		want   string
	}{
		{"/usr/bin/caddy", true, `DEB_BUILD_OPTIONS=nostrip apt-get source --build "$(dpkg-query -S /usr/bin/caddy | cut -d: -f1)"`},
		{"/usr/bin/$(x) y", true, `DEB_BUILD_OPTIONS=nostrip apt-get source --build "$(dpkg-query -S '/usr/bin/$(x) y' | cut -d: -f1)"`},
		{"/usr/bin/caddy", false, own},
		{"/usr/local/bin/caddy", true, own},
		{"/srv/web", true, own},
		{"", true, own},
	} {
		if got := unstripped(test.exe, test.debian); got != test.want {
			t.Errorf("%s: %s", test.exe, got)
		}
	}
}

// TestTargetChecks: of a target doctor knows the owner, the program, the symbols and the place.
func TestTargetChecks(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range targetChecks(t.Context(), Patient{PID: os.Getpid()}) {
		names = append(names, c.Name)
		if !c.OK && c.Name != checkSymbols || c.Name == checkPlace && !strings.HasPrefix(c.Found, "namespaces of its own: none; unit: ") {
			t.Errorf("of this process: %+v", c)
		}
	}
	if want := []string{checkOwner, checkProgram, checkSymbols, checkPlace}; !slices.Equal(names, want) {
		t.Errorf("checks %q, want %q", names, want)
	}
	others := process.Facts{PID: 7, UID: 4711, Dumpable: true}
	if of, ofDaemon := ownerCheck(others, false), ownerCheck(others, true); of.Cure != "sudo -u '#4711' ccmapd doctor 7" || ofDaemon.Cure != "sudo ccmapd serve" {
		t.Errorf("cures of another's process: %q, and by a daemon %q", of.Cure, ofDaemon.Cure)
	}
	const tooLarge = 1 << 22 // for the number of a process
	if c := placeCheck(process.Facts{PID: tooLarge}); !strings.HasPrefix(c.Found, "namespaces of its own: not known (no such file") {
		t.Errorf("of no process: %+v", c)
	}
}

func failedOf(checks []Check) (names []string) {
	for _, c := range checks {
		if !c.OK {
			names = append(names, c.Name)
		}
	}
	return names
}

// TestSessionsFit: shared rings need the room of one session, an ordinary user's own rings more.
func TestSessionsFit(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		m    machine
		want int
	}{
		{machine{mlockKB: 516, cpus: 2}, 7},
		{machine{mlockKB: 516, cpus: 2, memlock: 8 << 20}, 64},
		{machine{mlockKB: -1, cpus: 2}, 0},
		{machine{cpus: 64, lockAny: true}, mostSessions},
		{machine{cpus: 2, memlock: ^uint64(0)}, mostSessions},
	} {
		if got := test.m.ringsFit(); got != test.want {
			t.Errorf("%+v: %d sessions, want %d", test.m, got, test.want)
		}
	}
}
