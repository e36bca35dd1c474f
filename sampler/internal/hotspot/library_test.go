package hotspot

import (
	"bufio"
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
	"github.com/ccmapd/ccmapd/internal/process"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler"
)

// strippedJDK returns a JDK whose libjvm.so has no symbols but those for the dynamic linker.
func strippedJDK(t *testing.T, jdk jvmtest.JDK) (_ jvmtest.JDK, library string) {
	t.Helper()
	home := t.TempDir()
	for _, command := range [][]string{
		{"cp", "-rs", jdk.Home + "/lib", jdk.Home + "/conf", home}, // links, but for folders
		{"cp", "--remove-destination", jdk.Home + "/lib/libjli.so", home + "/lib"},
		{"mkdir", home + "/bin"},
		{"cp", jdk.Home + "/bin/java", home + "/bin"},
		{"rm", home + "/lib/server/libjvm.so"},
		{"objcopy", "--strip-all", jdk.Home + "/lib/server/libjvm.so", home + "/lib/server/libjvm.so"},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			testrun.Lacks(t, "run %s: %v\n%s", command[0], err, out)
		}
	}
	return jvmtest.JDK{Name: jdk.Name, Home: home}, home + "/lib/server/libjvm.so"
}

// threadNamed returns a thread of a JVM.
func threadNamed(t *testing.T, p *Process, name string) uint32 {
	t.Helper()
	tids, err := process.Threads(p.pid)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(tids, func(tid uint32) bool { return p.threadName(tid) == name })
	if i < 0 {
		t.Fatalf("no thread %q", name)
	}
	return tids[i]
}

// TestLibraries attaches to a JVM whose library is stripped, then to the same after the file was
// replaced by another one, and after it is gone: stacks of Java are found by the JVM's memory
// alone.
func TestLibraries(t *testing.T) {
	jdk, library := strippedJDK(t, jvmtest.JDKs(t)[0])
	j := jdk.Start(t, nil, "Loop")
	for _, c := range []struct {
		what   string
		change func() error
	}{
		{"stripped", func() error { return nil }},
		{"replaced", func() error {
			other := library + ".new"
			if err := os.WriteFile(other, []byte("another library"), 0o755); err != nil {
				return err
			}
			return os.Rename(other, library)
		}},
		{"gone", func() error { return os.Remove(library) }},
	} {
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		p := openJVM(t, j.PID)
		worker := threadNamed(t, p, "worker")
		const most, enough = 200, 20
		whole := 0
		var last process.Registers
		for i := 0; i < most && whole < enough; {
			m, err := momentOf(j.PID, worker)
			if err != nil {
				t.Fatal(err)
			}
			if m.Regs == last {
				continue // on a busy machine it has not run since
			}
			last = m.Regs
			i++
			if frames, rooted := p.shown(m); rooted && frames[len(frames)-1] == "java.lang.Thread.run" && slices.Contains(frames, "Loop.work") {
				whole++
			}
		}
		if whole < enough {
			t.Errorf("%s: %d of %d stacks are whole", c.what, whole, most)
		}
		if _, version := p.Build(); !strings.HasPrefix(version, "OpenJDK ") {
			t.Errorf("%s: the version is %q", c.what, version)
		}
	}
}

// loader loads a library and does nothing with it.
const loader = `#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int n, char **arguments) {
	if (n != 2 || !dlopen(arguments[1], RTLD_NOW)) return 1;
	puts("ready");
	fflush(stdout);
	return getchar() == 'x';
}
`

// TestNoJVM attaches to a process that has loaded libjvm.so and runs no JVM, and to one that has
// mapped a file of that name.
func TestNoJVM(t *testing.T) {
	jdk := jvmtest.JDKs(t)[0]
	dir := t.TempDir()
	source, program, fake := filepath.Join(dir, "loader.c"), filepath.Join(dir, "loader"), filepath.Join(dir, "libjvm.so")
	if err := errors.Join(os.WriteFile(source, []byte(loader), 0o600), os.WriteFile(filepath.Join(dir, "fake.c"), []byte("int gHotSpotVMStructs[1000];\nvoid f(void) {}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, arguments := range [][]string{{"-o", program, source, "-ldl"}, {"-shared", "-fPIC", "-o", fake, filepath.Join(dir, "fake.c")}} {
		if out, err := exec.Command("gcc", arguments...).CombinedOutput(); err != nil {
			testrun.Lacks(t, "run gcc: %v\n%s", err, out)
		}
	}
	for _, library := range []string{filepath.Join(jdk.Home, "lib/server/libjvm.so"), fake} {
		cmd := exec.Command(program, library)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			in.Close()
			cmd.Wait()
		})
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%s: %q, %v", library, line, err)
		}
		pid := cmd.Process.Pid
		p, err := Open(context.Background(), sampler.ProcessOptions{PID: pid, Logger: slog.New(slog.DiscardHandler)}, new(hang.Watch))
		if err != nil {
			if !errors.Is(err, sampler.ErrNotManaged) {
				t.Errorf("%s: %v", library, err)
			}
			continue
		}
		t.Cleanup(p.Close)
		if library == fake {
			t.Error("a library without tables is taken for a JVM")
		}
		m, err := momentOf(pid, uint32(pid))
		if err != nil && !errors.Is(err, unix.ESRCH) {
			t.Fatal(err)
		}
		var st process.Stack
		p.Unwind(m, &st)
		if frames := p.Frames(&st, ccmap.NewNames(), nil); len(frames) == 0 || len(foundIn(&st).java.Frames) > 0 {
			t.Errorf("%s: %d frames, %d of Java", library, len(frames), len(foundIn(&st).java.Frames))
		}
	}
}
