package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// spin runs for three seconds, and for longer where it gets little CPU time, as ccmapd then does.
// It says how it ended.
const spin = `public class Spin {
    static long spin(long n) { long x = 1; while (n-- > 0) x = x * 31 + (x >> 7); return x; }

    public static void main(String[] args) {
        long sum = 0, end = System.nanoTime() + 3_000_000_000L;
        for (int i = 0; i < 1_000_000 || System.nanoTime() < end; i++) sum += spin(1000);
        System.exit(sum == 0 ? 1 : 7);
    }
}
`

// A JVM is sampled although it cannot be held at its start, and its exit code is passed on. This one
// has its first compiler alone, whose code counts nothing, and the report says so.
func TestRunJVM(t *testing.T) {
	jdk := jvmtest.JDKs(t)[0]
	dir := t.TempDir()
	source, profile := filepath.Join(dir, "Spin.java"), filepath.Join(dir, "spin.json")
	if err := os.WriteFile(source, []byte(spin), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runWith([]string{"run", "-o", profile, "--", filepath.Join(jdk.Home, "bin/java"), "-XX:TieredStopAtLevel=1", source}, nil)
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
// used, what compiled code was thrown away, and a mode that is none are said. A profile that cannot be read keeps no JVM
// from starting.
func TestRunCached(t *testing.T) {
	t.Parallel()
	for _, jdk := range jvmtest.JDKs(t) {
		dir := t.TempDir()
		source, profile, java := filepath.Join(dir, "Spin.java"), filepath.Join(dir, "spin.json"), filepath.Join(jdk.Home, "bin/java")
		if err := os.WriteFile(source, []byte(spin), 0o600); err != nil {
			t.Fatal(err)
		}
		for known, tries := false, 0; !known; tries++ { // on a busy machine the JVM's counts may be read before it has compiled
			if code, _, stderr := runWith([]string{"run", "-q", "-o", profile, "--", java, source}, nil); code != 7 || tries == 5 {
				t.Fatalf("the first run exits with %d: %s", code, stderr)
			}
			known = strings.Contains(ccmapdOK(t, "hints", "--mode", "0", profile), "Spin::spin")
		}
		code, stdout, stderr := runWith([]string{"run", "--cached", profile, "--mode", "0", "--scale", "0.2", "--store-log", "use,deopts,deopts-each,queue",
			"--", java, source}, nil)
		if code != 7 || stdout != "" {
			t.Errorf("JDK %s: exit code %d, standard output %q", jdk.Name, code, stdout)
		}
		for _, want := range []string{"cached: used: Spin.spin is compiled after 0.2 of the usual calls", "in all, since the JVM could be watched"} {
			if !strings.Contains(stderr, want) {
				t.Errorf("JDK %s says nothing of %q:\n%s", jdk.Name, want, stderr)
			}
		}
		t.Log(stderr)
		code, _, stderr = runWith([]string{"run", "-q", "--cached", filepath.Join(dir, "missing.json"), "--", java, "-version"}, nil)
		if code != 0 || !strings.Contains(stderr, "the JVM starts without a cached profile") {
			t.Errorf("without a profile: exit code %d\n%s", code, stderr)
		}
	}
}
