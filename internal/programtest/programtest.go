// Package programtest copies programs for tests that execute the copies, often as another
// user, builds ccmapd for tests that are not its own, and finds tools of the go command.
//
// A program that any process has open for writing cannot be executed (ETXTBSY, execve(2)).
// A child that a parallel test starts has all open files of the test until its own execve, so
// a test that writes a program and executes it fails now and then. Copies made here are safe.
package programtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// PublicDir makes a directory with a mode that lets other users in. The test removes it.
func PublicDir(t testing.TB, mode os.FileMode) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ccmapd-test-") // only the owner may enter t.TempDir
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, mode)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// Copy copies a program to a file of that name in a public directory, and returns its path.
func Copy(t testing.TB, program, name string) string {
	t.Helper()
	content, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(PublicDir(t, 0o755), name)
	Write(t, file, content)
	return file
}

// CommandEnv names ccmapd as this tree builds it, for test processes that share one.
const CommandEnv = "CCMAPD_TEST_COMMAND"

// Command returns ccmapd: the one that CommandEnv names, or one that it builds into a directory from the module at root.
func Command(root, dir string) (string, error) {
	if built := os.Getenv(CommandEnv); built != "" {
		return built, nil
	}
	out := filepath.Join(dir, "ccmapd")
	build := exec.Command("go", "build", "-o", out, "./cmd/ccmapd")
	build.Dir = root
	if text, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build ccmapd: %w\n%s", err, text)
	}
	return out, nil
}

// Write writes a program of mode 0755. This process starts no child meanwhile.
func Write(t testing.TB, file string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, content, 0o755); err != nil {
		t.Fatal(err)
	}
}
