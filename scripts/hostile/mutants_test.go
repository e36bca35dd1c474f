package main

import (
	"bytes"
	"os"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// testBases are hand-written guests in place of those that a compiler makes.
func testBases() (bases []base) {
	for _, name := range append(guests.SmallNames(), "traps", "hello") {
		bases = append(bases, base{name, guests.Small(name)})
	}
	return bases
}

// A mutant is the same whenever it is made, and differs from its base; mutants of all seeds
// and numbers are not all alike; wazero takes most of those that it should.
func TestMutants(t *testing.T) {
	t.Parallel()
	bases := testBases()
	const most = 60
	for _, k := range mutations() {
		met := map[string]bool{}
		tamed, good := 0, 0
		for n := range most {
			name, mutant := k.mutant(bases, 1, n)
			_, again := k.mutant(bases, 1, n)
			if !bytes.Equal(mutant, again) {
				t.Errorf("%s: mutant %d is made in two ways", k.name, n)
			}
			if bytes.Equal(mutant, guests.Small(name)) {
				t.Errorf("%s: mutant %d is %s", k.name, n, name)
			}
			_, other := k.mutant(bases, 2, n)
			met[string(mutant)], met[string(other)] = true, true
			if n%k.wild > 0 {
				tamed++
				if taken(mutant) {
					good++
				}
			}
		}
		if len(met) < most*3/2 {
			t.Errorf("%s: %d mutants of %d", k.name, len(met), 2*most)
		}
		if good < tamed*9/10 {
			t.Errorf("%s: wazero takes %d mutants of %d", k.name, good, tamed)
		}
	}
}

// endlessLoop is a module whose function f, exported, is a loop without an end.
var endlessLoop = []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x03\x02\x01\x00" + "\x07\x05\x01\x01f\x00\x00" +
	"\x0a\x09\x01\x07\x00\x03\x40\x0c\x00\x0b\x0b")

// Guests run alike profiled and plain, and are sampled or recorded.
func TestCompare(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		module []byte
		exact  bool
		want   result
	}{
		{"traps", guests.Small("traps"), false, result{Trapped: true}},
		{"exit", guests.Small("exit"), true, result{}},
		{"start", guests.Small("start"), false, result{}},
		{"an endless loop", endlessLoop, false, result{Late: true}},
	} {
		r := result{Exact: c.exact}
		var told []verdict
		err := r.compare(c.module, func(v verdict) error {
			told = append(told, v)
			return nil
		})
		if diff := cmp.Diff([]verdict{plainEnded, same}, told); err != nil || diff != "" {
			t.Errorf("%s: %v: %s\n%s", c.name, err, r.Detail, diff)
		}
		if r.Trapped != c.want.Trapped || r.Late != c.want.Late || r.Calls == 0 || r.Samples == 0 || r.Took == 0 || r.Held == 0 || r.Profiled == 0 {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// A difference of two answers is told.
func TestJudge(t *testing.T) {
	t.Parallel()
	plain, other := answer{said: []string{"run 1"}}, answer{said: []string{"run 2"}}
	for _, c := range []struct {
		plain, profiled answer
		exact           bool
		want            verdict
	}{
		{plain, plain, false, same},
		{plain, other, false, differs},
		{plain, answer{said: append(plain.said, "more")}, false, differs},
		{plain, answer{panicked: "index"}, false, differs},
		{plain, answer{refused: "magic"}, false, differs},
		{answer{refused: "magic"}, plain, false, differs},
		{answer{refused: "magic"}, answer{refused: "header"}, false, refused},
		{plain, answer{refused: "table of 16777216 elements, more than 10000000"}, false, beyond},
		{answer{panicked: "files"}, plain, false, broken},
		{answer{late: true}, other, false, same},
		{answer{said: plain.said, late: true}, other, false, differs},
		{plain, answer{late: true}, false, differs},
		{plain, answer{late: true}, true, same},
	} {
		r := result{Exact: c.exact}
		if got := r.judge(c.plain, c.profiled); got != c.want || (got == differs) != (r.Detail != "") {
			t.Errorf("%+v and %+v: %s (%s), want %s", c.plain, c.profiled, got, r.Detail, c.want)
		}
	}
}

// A worker that ended in plain wazero is no finding; one that ended in the profiler is. A campaign goes on with
// the results that were kept.
func TestCount(t *testing.T) {
	t.Parallel()
	const before = `{"Number":6,"Verdict":"alike","Calls":3,"Samples":2}`
	killed := outcome{code: -1, signal: syscall.SIGKILL}
	for _, c := range []struct {
		how       outcome
		last      string
		want      verdict
		findings  int
		wantError bool
	}{
		{outcome{}, `{"Number":7,"Verdict":"alike"}`, same, 0, true}, // there is a mutant 8
		{killed, `{"Number":7,"Verdict":"begun"}`, endless, 0, false},
		{outcome{code: 2}, `{"Number":7,"Verdict":"begun"}`, broken, 0, false},
		{killed, `{"Number":7,"Verdict":"plain"}`, crashed, 1, false},
		{outcome{code: 2}, `{"Number":7,"Verdict":"plain"}`, crashed, 1, false},
	} {
		h := testHostile(t)
		m, err := newMutated(h, mutations()[0], testBases(), false)
		if err != nil {
			t.Fatal(err)
		}
		defer m.results.Close()
		c.how.stdout = before + "\n" + c.last + "\n"
		next, err := m.count(c.how, 9, nil)
		if (err != nil) != c.wantError {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil && (next != 8 || m.calls != 3 || m.sampled != 1 || len(m.misses) != c.findings || m.verdicts[c.want] != 1) {
			t.Errorf("%+v: next %d, %d calls, %v, %q", c, next, m.calls, m.verdicts, m.misses)
		}
		again, err := newMutated(h, mutations()[0], testBases(), true)
		if err != nil {
			t.Fatal(err)
		}
		defer again.results.Close()
		if diff := cmp.Diff(m.row(), again.row(), cmp.AllowUnexported(row{})); diff != "" || again.stretch(5, 9) != 6 || again.stretch(6, 9) != 6 || again.stretch(8, 9) != 9 {
			t.Errorf("%+v: kept results differ:\n%s", c, diff)
		}
	}
}

// A thread that takes more CPU time than its deadline has is killed with its process.
func TestDeadline(t *testing.T) {
	t.Parallel()
	const name = "HOSTILE_DEADLINE"
	if os.Getenv(name) != "" {
		runtime.LockOSThread()
		newDeadline(time.Millisecond)
		for n := 0; ; n++ {
			runtime.KeepAlive(n)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	o, err := testHostile(t).child(t.Context(), limits{env: []string{name + "=1"}}, self, "-test.run=^TestDeadline$")
	if err != nil || o.signal != syscall.SIGKILL {
		t.Errorf("%+v, %v", o, err)
	}
}

// A module that misses two imports says the same each time, whichever of them wazero names.
func TestTwoImportsMissing(t *testing.T) {
	t.Parallel()
	twoImports := []byte("\x00asm\x01\x00\x00\x00" + "\x01\x04\x01\x60\x00\x00" + "\x02\x0d\x02" + "\x01a\x01f\x00\x00" + "\x01b\x01f\x00\x00")
	want := []string{"instantiated: an import is missing or of another type"}
	for range 20 {
		if a := observe(twoImports, time.Minute, nil, nil); !cmp.Equal(a.said, want) {
			t.Fatalf("%+v", a)
		}
	}
}
