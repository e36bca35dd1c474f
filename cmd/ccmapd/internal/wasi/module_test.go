package wasi

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/testdata/guests"
)

// writeFile writes a file into a new directory and returns its path.
func writeFile(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o777); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFind(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]bool{
		writeFile(t, "named.wasm", "text"):     true, // and is guests.Refused with a reason
		writeFile(t, "nameless", guests.Empty): true,
		writeFile(t, "text", "text"):           false,
		writeFile(t, "short", "\x00as"):        false,
		writeFile(t, "empty", ""):              false,
		t.TempDir():                            false,
		"missing.wasm":                         false,
		"/bin/sh":                              false,
		os.DevNull:                             false,
	} {
		if found, got := Find(path); got != want || found != path {
			t.Errorf("%s is a module: %v (%s), want %v", path, got, found, want)
		}
	}
}

// TestFindInPath: a command of the path comes before a file of that name. It
// sets the environment, and so is not parallel.
func TestFindInPath(t *testing.T) {
	path, native := writeFile(t, "both", guests.Empty), writeFile(t, "both", "#!/bin/sh")
	t.Chdir(filepath.Dir(path))
	t.Setenv("PATH", filepath.Dir(native))
	if found, ok := Find("both"); ok {
		t.Errorf("%s is taken instead of %s", found, native)
	}
	t.Setenv("PATH", "/nowhere")
	if _, ok := Find("both"); !ok {
		t.Error("a module of the working directory is not found")
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	huge := writeFile(t, "huge.wasm", guests.Empty)
	if err := os.Truncate(huge, mostModuleBytes+1); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		huge: "are more than the 1.1 GB that modules may have",
		writeFile(t, "text.wasm", "\x7fELF\x02\x01\x01\x00"):      "it does not begin like one",
		writeFile(t, "cut.wasm", guests.Empty[:7]):                "it does not begin like one",
		writeFile(t, "component.wasm", "\x00asm\x0d\x00\x01\x00"): "a component",
		writeFile(t, "new.wasm", "\x00asm\x02\x00\x00\x00"):       "version 2, layer 0",
		writeFile(t, "layer.wasm", "\x00asm\x01\x00\x02\x00"):     "version 1, layer 2",
		"missing.wasm": "no such file",
	} {
		m, err := Read(path)
		if m != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: error %v, want %q", path, err, want)
		}
	}
}

func TestTargetOfModule(t *testing.T) {
	t.Parallel()
	m, err := Read(writeFile(t, "empty.wasm", guests.Empty))
	if err != nil {
		t.Fatal(err)
	}
	got := (&Guest{module: m, args: []string{"-n", "1"}}).target()
	// printf '\0asm\1\0\0\0' | sha256sum
	const hash = "93a44bbb96c751218e4c00d479e4c14358122a389acca16205b1e4d0dc5f9476"
	if got.PID != os.Getpid() || got.Executable != m.Path || got.BuildID != hash || strings.Join(got.CommandLine, " ") != m.Path+" -n 1" {
		t.Errorf("target %+v", got)
	}
}
