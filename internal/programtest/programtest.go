// Package programtest copies programs for tests that execute the copies, often as another
// user.
//
// A program that any process has open for writing cannot be executed (ETXTBSY, execve(2)).
// A child that a parallel test starts has all open files of the test until its own execve, so
// a test that writes a program and executes it fails now and then. Copies made here are safe.
package programtest

import (
	"os"
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

// Write writes a program of mode 0755. This process starts no child meanwhile.
func Write(t testing.TB, file string, content []byte) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(file, content, 0o755); err != nil {
		t.Fatal(err)
	}
}
