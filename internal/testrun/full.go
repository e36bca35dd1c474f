// Package testrun knows what a run of this module's tests is: which tests are left out of it, and
// which processes belong to it.
//
// Two kinds of run exist. A newcomer's needs Go and a C compiler, and takes four minutes. A full run,
// which CCMAPD_TEST_FULL=1 asks for, is CI's: it has compilers of other languages, JVMs and half an
// hour. A test that needs a full run says so, with [Full]. A test that finds something missing on
// this machine says so, with [Lacks]: a full run fails by it, as nobody would notice that a test is
// skipped for years.
//
// Every test that is skipped by these two is added to the file that CCMAPD_TEST_SKIPPED names, a line
// each. scripts/test counts the lines: go test itself does not print what packages that pass have said.
package testrun

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// FullEnv is the switch: "1" asks for a full run.
const FullEnv = "CCMAPD_TEST_FULL"

// SkippedEnv names the file of skipped tests. Test binaries append to it at the same time.
const SkippedEnv = "CCMAPD_TEST_SKIPPED"

// Reason is why a newcomer's run leaves a test out.
type Reason string

// The reasons.
const (
	Minutes Reason = "takes many seconds"
	Quiet   Reason = "needs a quiet machine"
	Clang   Reason = "needs clang, or wasi-libc"
	NPM     Reason = "needs npm"
	Wabt    Reason = "needs wabt"
	JDK     Reason = "needs a JDK"
	Package Reason = "needs a package from the network"
)

// IsFull says whether this is a full run.
func IsFull() bool { return os.Getenv(FullEnv) == "1" }

// Full skips a test in a newcomer's run.
func Full(t testing.TB, why Reason) {
	t.Helper()
	if IsFull() {
		return
	}
	note(t, "left out: "+string(why))
	t.Skipf("%s: %s=1 adds this test", why, FullEnv)
}

// Lacks skips a test because this machine or user lacks something, which the text names with its cure.
// A full run fails instead.
func Lacks(t testing.TB, format string, args ...any) {
	t.Helper()
	missing := fmt.Sprintf(format, args...)
	if IsFull() {
		t.Fatalf("%s=1, but this machine lacks something: %s", FullEnv, missing)
	}
	line, _, _ := strings.Cut(missing, "\n")
	note(t, "not possible here: "+line)
	t.Skip(missing)
}

// WithoutBreakpointsEnv is "1" in a full run on a machine whose hypervisor has no debug registers.
const WithoutBreakpointsEnv = "CCMAPD_WITHOUT_BREAKPOINTS"

// Breakpoints skips a test that needs hardware breakpoints if there are none, as an error of perfevent.Silent says. A
// full run that was not told so fails.
func Breakpoints(t testing.TB, silent error) {
	t.Helper()
	switch {
	case silent == nil:
	case os.Getenv(WithoutBreakpointsEnv) == "1":
		note(t, "not possible here: "+silent.Error())
		t.Skip(silent)
	default:
		Lacks(t, "%v", silent)
	}
}

// note adds a test to the file of skipped tests.
func note(t testing.TB, why string) {
	t.Helper()
	name := os.Getenv(SkippedEnv)
	if name == "" {
		return
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s\t%s\n", why, t.Name()); err != nil {
		t.Fatal(err)
	}
}
