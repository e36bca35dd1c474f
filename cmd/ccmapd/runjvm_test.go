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
