package gosym

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// identityOf returns the build id of a program's file.
func identityOf(t *testing.T, path string) string {
	t.Helper()
	in, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	b := testBudget()
	f, err := readELF(b, in)
	if err != nil {
		t.Fatal(err)
	}
	return buildID(b, f)
}

// without are the flags for a program without a build id.
const without = "-ldflags=-B=none -buildid= -extldflags=-Wl,--build-id=none"

// buildNamed builds a Go program of one file without a build id.
func buildNamed(t *testing.T, source, out string, env ...string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-trimpath", without, "-o", out, file)
	cmd.Env = append(os.Environ(), env...)
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
}

// TestCodeID: without a build id a program is its code. The same source makes the same build, and stripped it stays
// that; a changed constant or line makes another one. So it is with programs that C's linker links.
func TestCodeID(t *testing.T) {
	t.Parallel()
	const plain = "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"one\") }\n"
	const withC = "package main\n\n/* static int one(int i) { return i + 11; } */\nimport \"C\"\n\nfunc main() { println(C.one(1)) }\n"
	for name, c := range map[string]struct{ source, constant, line, env string }{
		"Go": {
			plain, "package main\n\nimport \"os\"\n\nfunc main() { os.Stdout.WriteString(\"two\") }\n",
			"package main\n\nimport \"os\"\n\n\nfunc main() { os.Stdout.WriteString(\"one\") }\n", "CGO_ENABLED=0",
		},
		"cgo": {
			withC, "package main\n\n/* static int one(int i) { return i + 12; } */\nimport \"C\"\n\nfunc main() { println(C.one(1)) }\n",
			"package main\n\n/* static int one(int i) { return i + 11; } */\nimport \"C\"\n\n\nfunc main() { println(C.one(1)) }\n", "CGO_ENABLED=1",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "cgo" {
				withCgo.binary(t) // skips where it cannot be linked
			}
			dir := t.TempDir()
			first, again, stripped := filepath.Join(dir, "first"), filepath.Join(dir, "again"), filepath.Join(dir, "stripped")
			constant, line := filepath.Join(dir, "constant"), filepath.Join(dir, "line")
			buildNamed(t, c.source, first, c.env)
			buildNamed(t, c.source, again, c.env)
			buildNamed(t, c.constant, constant, c.env)
			buildNamed(t, c.line, line, c.env)
			want := identityOf(t, first)
			if len(want) != 16 {
				t.Fatalf("the build id is %q, want 16 digits", want)
			}
			same := []string{again}
			if name == "cgo" { // the C compiler's package has it
				if text, err := exec.Command("strip", "-o", stripped, first).CombinedOutput(); err != nil {
					t.Fatalf("%v\n%s", err, text)
				}
				same = append(same, stripped)
			}
			for _, path := range same {
				if got := identityOf(t, path); got != want {
					t.Errorf("%s: build %s, want %s", filepath.Base(path), got, want)
				}
			}
			for _, path := range []string{constant, line} {
				if got := identityOf(t, path); got == want {
					t.Errorf("another %s is the same build", filepath.Base(path))
				}
			}
		})
	}
}
