package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/jvmtest"
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

// A JVM is sampled although it cannot be held at its start, and its exit code is passed on.
func TestRunJVM(t *testing.T) {
	jdk := jvmtest.JDKs(t)[0]
	dir := t.TempDir()
	source, profile := filepath.Join(dir, "Spin.java"), filepath.Join(dir, "spin.folded")
	if err := os.WriteFile(source, []byte(spin), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := runWith([]string{"run", "-o", profile, "--", filepath.Join(jdk.Home, "bin/java"), source}, nil)
	text, err := os.ReadFile(profile)
	if code != 7 || err != nil || !strings.Contains(string(text), "Spin.main") {
		t.Errorf("exit code %d, %v, %d bytes of profile\n%s", code, err, len(text), stderr)
	}
}
