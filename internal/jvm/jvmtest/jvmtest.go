// Package jvmtest runs Java programs for tests of what reads JVMs.
package jvmtest

import (
	"bufio"
	"embed"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

// JDK is an installed JDK.
type JDK struct {
	Name string // of the release: "17", "25"
	Home string
}

// homes are where JDKs of the releases that tests use are found.
var homes = map[string]string{
	"17": "/usr/lib/jvm/java-17-openjdk-" + runtime.GOARCH,
	"25": "/usr/lib/jvm/*25*",
}

// JDKs returns the JDKs to test with: 17, and 25 where it is installed. Only full runs test with
// JDKs. A full run on a machine without 17 fails.
func JDKs(t testing.TB) []JDK {
	t.Helper()
	testrun.Full(t, testrun.JDK)
	var found []JDK
	for _, name := range []string{"17", "25"} {
		if home := find(homes[name]); home != "" {
			found = append(found, JDK{name, home})
			continue
		}
		if name == "17" {
			testrun.Lacks(t, "no JDK 17: install openjdk-17-jdk-headless")
		}
		t.Logf("no JDK %s at %s: not tested with it", name, homes[name])
	}
	return found
}

// InTurn returns the JDKs of a test that takes minutes with each: all, or only the one whose turn it is.
func InTurn(t testing.TB) []JDK {
	t.Helper()
	all := JDKs(t)
	return PartInTurn(all, len(all))
}

// PartInTurn returns all of a list whose test takes minutes, or only the one of some equal parts whose turn it is, where
// CCMAPD_TEST_TURN has a number, as in CI that of the day.
func PartInTurn[E any](all []E, parts int) (part []E) {
	turn, err := strconv.ParseUint(os.Getenv("CCMAPD_TEST_TURN"), 10, 16)
	if err != nil {
		return all
	}
	for i := int(turn) % parts; i < len(all); i += parts {
		part = append(part, all[i])
	}
	return part
}

func find(pattern string) string {
	names, _ := filepath.Glob(pattern)
	for _, home := range names {
		if _, err := os.Stat(filepath.Join(home, "bin/javac")); err == nil {
			return home
		}
	}
	return ""
}

// sources are the programs. All are compiled for Java 17.
//
//go:embed testdata/*.java
var sources embed.FS

// Main runs the tests of a package whose TestMain it is, and then removes what was compiled.
func Main(m *testing.M) {
	code := testrun.Guard(m).Run()
	Clean()
	os.Exit(code)
}

// Clean removes the compiled programs. No test may run any more.
func Clean() {
	if compiled != "" {
		os.RemoveAll(compiled)
	}
}

// compiled is the directory of the compiled programs.
var compiled string

// classesEnv names a directory with the programs, compiled, for many test binaries: their sources
// are in it, too.
const classesEnv = "CCMAPD_JVM_CLASSES"

// classes compiles the programs once a test binary, unless somebody has.
var classes = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(classesEnv); dir != "" {
		return dir, nil
	}
	dir, err := os.MkdirTemp("", "ccmapd-jvmtest-")
	if err != nil {
		return "", err
	}
	os.Chmod(dir, 0o755) // a test runs a JVM as another user
	compiled = dir
	names, err := fs.Glob(sources, "testdata/*.java")
	if err != nil {
		return "", err
	}
	args := []string{"-d", dir, "--release", "17"}
	for _, name := range names {
		text, err := sources.ReadFile(name)
		if err != nil {
			return "", err
		}
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, text, 0o644); err != nil {
			return "", err
		}
		args = append(args, file)
	}
	out, err := exec.Command(filepath.Join(find(homes["17"]), "bin/javac"), args...).CombinedOutput()
	if err != nil {
		return "", &compileError{string(out), err}
	}
	return dir, nil
})

type compileError struct {
	output string
	err    error
}

func (e *compileError) Error() string {
	return "compile test programs: " + e.err.Error() + "\n" + e.output
}
func (e *compileError) Unwrap() error { return e.err }

// Classes returns the directory of the compiled programs, and of their sources, for tests that start
// JVMs by themselves.
func Classes(t testing.TB) string {
	t.Helper()
	dir, err := classes()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// JVM is a running JVM. It ends with the test, or when its standard input is closed.
type JVM struct {
	PID int
	Dir string         // its working directory
	Out *bufio.Scanner // lines of its standard output, after the one that says "ready"

	stdin io.WriteCloser
}

// Start runs a program of testdata, with flags for the JVM. It returns once the program has
// written a line that begins with "ready"; the JVM may write others before.
func (j JDK) Start(t testing.TB, flags []string, class string, args ...string) *JVM {
	t.Helper()
	line := append(append([]string{"-XX:-UsePerfData", "-Xlog:disable", "-cp", Classes(t)}, flags...), class)
	return Run(t, filepath.Join(j.Home, "bin/java"), t.TempDir(), append(line, args...)...)
}

// Run runs a JVM in a directory, which also has its temporary files. It returns once the program
// has written a line that begins with "ready". When the test has ended, nothing of the JVM is
// left: neither the socket of an attach nor recordings.
func Run(t testing.TB, java, dir string, args ...string) *JVM {
	t.Helper()
	files := t.TempDir()
	cmd := exec.Command(java, append([]string{"-Djava.io.tmpdir=" + files}, args...)...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return run(t, cmd)
}

// run starts a JVM, and waits until the program is ready.
func run(t testing.TB, cmd *exec.Cmd) *JVM {
	t.Helper()
	j := &JVM{Dir: cmd.Dir}
	if err := j.start(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.end(cmd) })
	for ready := false; !ready; ready = strings.HasPrefix(j.Out.Text(), "ready") {
		if !j.Out.Scan() {
			t.Fatalf("%s ended before it was ready", cmd)
		}
	}
	return j
}

func (j *JVM) start(cmd *exec.Cmd) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if j.stdin, err = cmd.StdinPipe(); err != nil {
		return err
	}
	j.Out = bufio.NewScanner(out)
	err = cmd.Start()
	if err == nil {
		j.PID = cmd.Process.Pid
	}
	return err
}

// end ends the JVM, whatever the test has done with it. The JVM puts the socket of an attach into
// /tmp, and removes it only if it ends by itself.
func (j *JVM) end(cmd *exec.Cmd) {
	j.stdin.Close()
	cmd.Process.Kill()
	cmd.Wait()
	os.Remove("/tmp/.java_pid" + strconv.Itoa(j.PID))
}

// Tell writes a line to the program's standard input.
func (j *JVM) Tell(t testing.TB, line string) {
	t.Helper()
	if _, err := io.WriteString(j.stdin, line+"\n"); err != nil {
		t.Fatal(err)
	}
}
