package jvmtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// StartNested is [JDK.Start] for a JVM in a namespace of pids of its own, as in a container. Only root may.
func (j JDK) StartNested(t testing.TB, class string) *JVM {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(j.Home, "bin/java"), "-XX:-UsePerfData", "-Xlog:disable", "-Djava.io.tmpdir="+dir, "-cp", Classes(t), class)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	return run(t, cmd)
}

// StartAs is [JDK.Start] for a JVM of another user. Only root may. The JVM's directory, which has its
// temporary files, is that user's.
func (j JDK) StartAs(t testing.TB, user uint32, class string, args ...string) *JVM {
	t.Helper()
	dir, err := os.MkdirTemp("", "ccmapd-jvmtest-") // only root may enter t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chown(dir, int(user), int(user)); err != nil {
		t.Fatal(err)
	}
	line := append([]string{"-XX:-UsePerfData", "-Xlog:disable", "-Djava.io.tmpdir=" + dir, "-cp", Classes(t), class}, args...)
	cmd := exec.Command(filepath.Join(j.Home, "bin/java"), line...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
	return run(t, cmd)
}
