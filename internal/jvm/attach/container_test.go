package attach

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/testrun"
)

// containedJVM starts a JVM that waits, as process 1 of a container with a /tmp of its own,
// which has room for no file. root is who it is outside; 0: there are no other users inside. The JVM
// reads the source, from its working directory: its class path would lead to the new /tmp.
func containedJVM(t *testing.T, root int) *os.Process {
	t.Helper()
	const spaces = unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC
	cmd := exec.Command("sh", "-c", `mount -t tmpfs -o nr_inodes=1 tmpfs /tmp && exec "$@"`, "sh",
		javas(t)[0], "-XX:-UsePerfData", "-cp", "/nonexistent", "Wait.java")
	cmd.Dir = jvmtest.Classes(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: spaces}
	if root != 0 {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: root, Size: 1}}
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Cloneflags: spaces | unix.CLONE_NEWUSER, UidMappings: ids, GidMappings: ids, Credential: &syscall.Credential{NoSetGroups: true},
		}
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	check(t, err)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	lines := make(chan string)
	t.Cleanup(func() {
		in.Close()
		for line := range lines {
			t.Errorf("the JVM says %q", line) // a thread dump, if a SIGQUIT found no file of ours
		}
		cmd.Wait()
	})
	go func() {
		defer close(lines)
		for scan := bufio.NewScanner(out); scan.Scan(); {
			lines <- scan.Text()
		}
	}()
	if line := <-lines; line != "ready" {
		t.Fatalf("the JVM says %q", line)
	}
	return cmd.Process
}

// inside runs a command in the namespace of mounts of a container.
func inside(t *testing.T, pid int, command ...string) {
	t.Helper()
	if out, err := exec.Command("nsenter", append([]string{"--mount", "-t", strconv.Itoa(pid)}, command...)...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// TestContained: a JVM in a container has another number, another /tmp, and other users. A
// /tmp that takes no file is an error with its reason, and the JVM hears nothing of it.
func TestContained(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		testrun.Lacks(t, "only root makes containers")
	}
	for name, root := range map[string]int{"container": 0, "users": 65534} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			jvm := containedJVM(t, root)
			target := open(t, jvm.Pid)
			if target.inner != 1 {
				t.Errorf("inside it is process %d", target.inner)
			}
			mounted := func(options string) { inside(t, jvm.Pid, "mount", "-o", "remount,"+options, "/tmp") }
			refused := func(what string, want error) {
				t.Helper()
				if answer, err := target.Jcmd(t.Context(), patient, "VM.version"); !errors.Is(err, want) {
					t.Errorf("%s: %q, %v", what, answer, err)
				}
			}
			refused("/tmp is full", unix.ENOSPC)
			mounted("ro")
			refused("/tmp is read-only", unix.EROFS)
			mounted("rw,nr_inodes=100")
			for range 2 {
				if answer, err := target.Jcmd(t.Context(), patient, "VM.version"); err != nil || !strings.Contains(answer, "JDK") {
					t.Fatalf("VM.version: %q, %v", answer, err)
				}
			}
			checkFile(t, target)
			left, err := filepath.Glob("/proc/" + strconv.Itoa(jvm.Pid) + "/root/tmp/.attach_pid*")
			if len(left) > 0 || err != nil {
				t.Errorf("%q are left, %v", left, err)
			}
			if _, err := os.Lstat("/tmp/.java_pid1"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("outside of the container: %v", err)
			}
		})
	}
}
