package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/programtest"
)

// TestMCPIsApart: what agents' protocol needs is no part of ccmapd.
func TestMCPIsApart(t *testing.T) {
	t.Parallel()
	info, ok := debug.ReadBuildInfo()
	if !ok {
		t.Skip("built without modules")
	}
	for _, m := range info.Deps {
		if strings.Contains(m.Path, "modelcontextprotocol") || strings.Contains(m.Path, "jsonschema") {
			t.Errorf("ccmapd has %s", m.Path)
		}
	}
}

// TestMCP: the program for agents beside ccmapd is executed with the arguments; without one the error says where it is
// to be had.
func TestMCP(t *testing.T) {
	t.Parallel()
	self, err := exec.LookPath("ccmapd")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	ccmapd := programtest.Copy(t, self, "ccmapd")
	run := func() (string, int) {
		cmd := exec.Command(ccmapd, "mcp", "a b.pb.gz", "@web")
		cmd.Env = append(os.Environ(), "PATH="+dir)
		out, _ := cmd.CombinedOutput()
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(); code != exitFailed || !strings.Contains(out, "ccmapd-mcp is not installed") || !strings.Contains(out, "go build -C cmd/ccmapd-mcp") {
		t.Errorf("without the program: %d\n%s", code, out)
	}
	const script = "#!/bin/sh\nprintf '%s|' \"$0\" \"$@\"\nexit 7\n"
	for _, at := range []string{filepath.Join(dir, "ccmapd-mcp"), filepath.Join(filepath.Dir(ccmapd), "ccmapd-mcp")} {
		if err := os.WriteFile(at, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, code := run(); code != 7 || out != at+"|a b.pb.gz|@web|" {
			t.Errorf("%d %q, want %s", code, out, at)
		}
	}
}
