package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// spin runs for three seconds, or as many as its argument says, and for longer where it gets little CPU time, as
// ccmapd then does. It says how it ended.
const spin = `public class Spin {
    static long spin(long n) { long x = 1; while (n-- > 0) x = x * 31 + (x >> 7); return x; }

    public static void main(String[] args) {
        long seconds = args.length > 0 ? Long.parseLong(args[0]) : 3, sum = 0, end = System.nanoTime() + seconds * 1_000_000_000L;
        for (int i = 0; i < seconds * 300_000 || System.nanoTime() < end; i++) sum += spin(1000);
        System.exit(sum == 0 ? 1 : 7);
    }
}
`

// A JVM is sampled although it cannot be held at its start, and its exit code is passed on. This one
// has its first compiler alone, whose code counts nothing, and the report says so.
func TestRunJVM(t *testing.T) {
	t.Parallel()
	jdk := jvmtest.JDKs(t)[0]
	dir := t.TempDir()
	source, profile := filepath.Join(dir, "Spin.java"), filepath.Join(dir, "spin.json")
	if err := os.WriteFile(source, []byte(spin), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runAlone(t, "run", "-o", profile, "--", filepath.Join(jdk.Home, "bin/java"), "-XX:TieredStopAtLevel=1", source)
	if code != 7 || !strings.Contains(stderr, "Receivers: no calls caught, because the VM counts them itself, and has counted too few yet") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
	m, _, err := export.ReadFile(profile, export.ReadOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range m.Snapshot().Points() {
		t.Errorf("a point of %v", p.Origin)
	}
	code, stacks, stderr := runWith([]string{"convert", "--to", "folded", profile, "-"}, nil)
	if code != exitOK || !regexp.MustCompile(`Spin\.main[^;]*;Spin\.spin`).MatchString(stacks) {
		t.Errorf("convert exits with %d: %s%s", code, stacks, stderr)
	}
}

// TestRunCached: a JVM starts with what an earlier run knows, takes it in silence, and its output is its own. What is
// used, what compiled code was thrown away, and a mode that is none are said. A profile that cannot be read keeps no
// JVM from starting.
func TestRunCached(t *testing.T) {
	t.Parallel()
	for _, jdk := range jvmtest.InTurn(t) {
		dir := t.TempDir()
		source, profile, java := filepath.Join(dir, "Spin.java"), filepath.Join(dir, "spin.json"), filepath.Join(jdk.Home, "bin/java")
		if err := os.WriteFile(source, []byte(spin), 0o600); err != nil {
			t.Fatal(err)
		}
		for known, tries := false, 0; !known; tries++ { // on a busy machine the JVM's counts may be read before it has compiled
			if code, _, stderr := runAlone(t, "run", "-q", "-o", profile, "--", java, source); code != 7 || tries == 5 {
				t.Fatalf("the first run exits with %d: %s", code, stderr)
			}
			known = strings.Contains(ccmapdOK(t, "hints", "--mode", "0", profile), "Spin::spin")
		}
		code, stdout, stderr := runAlone(t, "run", "-o", filepath.Join(dir, "second.json"), "--cached", profile, "--mode", "0", "--scale", "0.2", "--store-log", "use,deopts,deopts-each,queue",
			"--", java, source)
		if code != 7 || stdout != "" {
			t.Errorf("JDK %s: exit code %d, standard output %q", jdk.Name, code, stdout)
		}
		for _, want := range []string{"cached: used: Spin.spin is compiled after 0.2 of the usual calls", "in all, since the JVM could be watched"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("JDK %s says nothing of %q:\n%s", jdk.Name, want, stderr)
			}
		}
		t.Log(stderr)
		code, _, stderr = runAlone(t, "run", "-q", "-o", filepath.Join(dir, "third.json"), "--cached", filepath.Join(dir, "missing.json"), "--", java, "-version")
		if code != 0 || !strings.Contains(stderr, "the JVM starts without a cached profile") {
			t.Errorf("without a profile: exit code %d\n%s", code, stderr)
		}
	}
}

// TestRunAOT: in mode 1 the first run writes the JVM's AOT cache, and the second one uses it. A JDK without one
// starts as ever, as one does whose arguments name a cache, or whose cache is no file.
func TestRunAOT(t *testing.T) {
	t.Parallel()
	jdks := jvmtest.JDKs(t)
	jar := spinJar(t, jdks[0].Home, t.TempDir()) // the oldest JDK's classes are for all
	for _, jdk := range jdks {
		dir := t.TempDir()
		java, cache := filepath.Join(jdk.Home, "bin/java"), filepath.Join(dir, "app.aot")
		start := func(want string, flags ...string) {
			t.Helper()
			args := append([]string{"run", "-q", "-o", filepath.Join(dir, "p.json"), "--store-log", "use", "--cached", cache, "--mode", "1", "--", java}, flags...)
			code, _, stderr := runAlone(t, append(args, "-cp", jar, "Spin", "1")...)
			if code != 7 || !strings.Contains(stderr, want) {
				t.Errorf("JDK %s %v: exit code %d, want 7 and %q\n%s", jdk.Name, flags, code, want, stderr)
			}
		}
		if release, err := releaseOf(java); err != nil || release < firstCache {
			start("cannot keep profiles")
			continue
		}
		start("it has -XX:AOTMode=… of its own", "-XX:AOTMode=off")
		start("cached: written: the AOT cache " + cache + ", when the program ends")
		loaded := filepath.Join(dir, "loaded.txt")
		start("cached: used: the AOT cache "+cache, "-Xlog:class+load:file="+loaded)
		if text, err := os.ReadFile(loaded); err != nil || !strings.Contains(string(text), "Spin source: shared objects file") {
			t.Errorf("JDK %s has not used its cache: %v\n%.2000s", jdk.Name, err, text)
		}
		if err := errors.Join(os.Remove(cache), os.Mkdir(cache, 0o700)); err != nil {
			t.Fatal(err)
		}
		start("is no regular file")
	}
}

// spinJar compiles the program into an archive, as the AOT cache takes no folders.
func spinJar(t *testing.T, home, dir string) string {
	t.Helper()
	source, jar := filepath.Join(dir, "Spin.java"), filepath.Join(dir, "spin.jar")
	if err := os.WriteFile(source, []byte(spin), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{{"javac", "-d", filepath.Join(dir, "classes"), source}, {"jar", "cf", jar, "-C", filepath.Join(dir, "classes"), "."}} {
		if out, err := exec.Command(filepath.Join(home, "bin", command[0]), command[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", command, err, out)
		}
	}
	return jar
}

// TestReleaseOf: the release of a JDK stands in a file beside its launcher.
func TestReleaseOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	launcher, link := filepath.Join(dir, "bin/java"), filepath.Join(dir, "java")
	if err := errors.Join(os.Mkdir(filepath.Dir(launcher), 0o700), os.WriteFile(launcher, nil, 0o700), os.Symlink(launcher, link)); err != nil {
		t.Fatal(err)
	}
	if _, err := releaseOf(launcher); err == nil {
		t.Error("a launcher alone has a release")
	}
	for text, want := range map[string]int{
		"IMPLEMENTOR=\"x\"\nJAVA_VERSION=\"25.0.3\"\n": 25, "JAVA_VERSION=\"26-ea\"\n": 26, "JAVA_VERSION=\"17\"\n": 17,
		"JAVA_RUNTIME_VERSION=\"25+36\"\n": 0, "JAVA_VERSION=\"99999.1\"": 0, "": 0,
	} {
		if err := os.WriteFile(filepath.Join(dir, "release"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := releaseOf(link); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: release %d, %v", text, got, err)
		}
	}
}
