package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/testdata/hostile/files"
)

// startQuietly starts a program and returns a channel that is closed when it has ended.
func startQuietly(t *testing.T, cmd *exec.Cmd) <-chan struct{} {
	t.Helper()
	startHearing(t, cmd)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		cmd.Wait()
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-ended })
	return ended
}

// interrupted sends one SIGINT, which must end the program.
func interrupted(t *testing.T, line string, cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	if !endsBySIGINT(t, line, cmd, ended) {
		t.Errorf("%s ended with %v, want by SIGINT", line, cmd.ProcessState)
	}
}

// endsBySIGINT sends one SIGINT and says whether it ends the program, before a limit that
// only a hang exceeds. Otherwise the program has ended by itself.
func endsBySIGINT(t *testing.T, line string, cmd *exec.Cmd, ended <-chan struct{}) bool {
	t.Helper()
	_ = cmd.Process.Signal(os.Interrupt) // fails only if the program has ended
	select {
	case <-ended:
	case <-time.After(time.Minute):
		t.Fatalf("%s goes on after SIGINT", line)
	}
	status := cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status.Signaled() && status.Signal() == syscall.SIGINT
}

// TestInterruptEndsReading: one SIGINT ends each command that reads standard input or a
// FIFO whose other end says nothing more.
func TestInterruptEndsReading(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	small := writeFiles(t, dir)["json"]
	commands := append(questions(small), "hints FILE", "fanin FILE", "fanin "+small+" --shared FILE", "fanin store "+filepath.Join(dir, "table.fi")+" FILE", "ui --no-open FILE", "pgo export FILE "+filepath.Join(dir, "out.pgo"), "pgo check FILE "+dir,
		"pgo report FILE "+small+" "+small, "overlap "+small+" FILE", "convert FILE OUT", "merge -o OUT FILE",
		"merge -o OUT FILE "+small, "merge -o OUT --files-from FILE", "html -o OUT FILE")
	for i, line := range commands {
		fifo := filepath.Join(dir, "fifo"+string(rune('a'+i)))
		if err := syscall.Mkfifo(fifo, 0o600); err != nil {
			t.Fatal(err)
		}
		inputs := []string{"-", fifo}
		if testing.Short() { // as under the race detector, where a process takes long to start
			inputs = inputs[i%2:][:1]
		}
		for _, from := range inputs {
			name := strings.ReplaceAll(line, small, "small")
			t.Run(strings.ReplaceAll(name, "FILE", filepath.Base(from)), func(t *testing.T) {
				t.Parallel()
				args := commandLine(line, from, filepath.Join(dir, "out.xml"))
				cmd := exec.Command("ccmapd", args...)
				w := openForReader(t, cmd, from)
				ended := startQuietly(t, cmd)
				// The command has begun to read when it has room for more than a pipe holds.
				if _, err := w().Write([]byte(strings.Repeat("a 1\n", 1<<15))); err != nil {
					t.Fatal(err)
				}
				interrupted(t, name, cmd, ended)
			})
		}
	}
	t.Cleanup(func() {
		if left, _ := filepath.Glob(filepath.Join(dir, "*out.xml")); len(left) > 0 {
			t.Errorf("left behind: %q", left)
		}
	})
}

// openForReader returns what opens the writing end of a command's input, once the
// command has been started.
func openForReader(t *testing.T, cmd *exec.Cmd, from string) func() io.Writer {
	t.Helper()
	if from == stdPath {
		w, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		return func() io.Writer { return w }
	}
	return func() io.Writer {
		w, err := os.OpenFile(from, os.O_WRONLY, 0) // waits for the reader
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { w.Close() })
		return w
	}
}

// TestInterruptEndsWork: one SIGINT ends a command in the middle of parsing, and of
// writing.
func TestInterruptEndsWork(t *testing.T) {
	if testing.Short() {
		t.Skip("makes large files; the goroutines are those of TestInterruptEndsReading")
	}
	t.Parallel()
	dir := t.TempDir()
	for _, line := range []string{"top FILE", "convert FILE OUT", "merge -o OUT FILE FILE", "diff FILE FILE"} {
		interruptParsing(t, dir, line)
	}
	// Nobody reads the output, so that it ends within writing.
	small := writeFiles(t, dir)["json"]
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	fill(t, w)
	for _, line := range []string{"convert FILE - --to xml", "merge -o - --to pprof FILE", "top FILE", "contexts FILE main.f0"} {
		cmd := exec.Command("ccmapd", commandLine(line, small, "")...)
		cmd.Stdout = w
		ended := startQuietly(t, cmd)
		awaitWrite(t, cmd.Process.Pid, ended)
		interrupted(t, line, cmd, ended)
	}
	if _, _, err := export.ReadFile(small, export.ReadOptions{}); err != nil {
		t.Error(err)
	}
}

// interruptParsing interrupts a command that has opened its file. If the command is faster,
// because the machine is busy with other programs, it gets a larger file.
func interruptParsing(t *testing.T, dir, line string) {
	t.Helper()
	for size := 8 << 20; ; size *= 2 {
		file := sameSamples(t, dir, size)
		cmd := exec.Command("ccmapd", commandLine(line, file, filepath.Join(dir, "out.xml"))...)
		ended := startQuietly(t, cmd)
		if awaitOpen(cmd.Process.Pid, file, ended) && endsBySIGINT(t, line, cmd, ended) {
			return
		}
		if size > 64<<20 || !cmd.ProcessState.Success() {
			t.Fatalf("%s ended with %v, want by SIGINT", line, cmd.ProcessState)
		}
	}
}

// sameSamples writes a file that takes long to parse, unless it exists, and returns its path.
func sameSamples(t *testing.T, dir string, size int) string {
	t.Helper()
	const kind = "same.xml.gz"
	file := filepath.Join(dir, strconv.Itoa(size)+kind)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	kinds := files.Kinds()
	i := slices.IndexFunc(kinds, func(k files.Kind) bool { return k.Name == kind })
	if err := kinds[i].Write(file, size); err != nil {
		t.Fatal(err)
	}
	return file
}

// awaitOpen waits until a process has a file open. It returns false if the process has ended
// before it was seen to have.
func awaitOpen(pid int, file string, ended <-chan struct{}) bool {
	for !hasOpen(pid, file) {
		select {
		case <-ended:
			return false
		default:
		}
	}
	return true
}

// hasOpen reports whether a process has a file open.
func hasOpen(pid int, file string) bool {
	links, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/fd/*")
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && to == file {
			return true
		}
	}
	return false
}

// fill fills a pipe, so that the next write to it blocks.
func fill(t *testing.T, w *os.File) {
	t.Helper()
	pipe, err := w.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var full error
	if err := pipe.Write(func(fd uintptr) bool {
		for full == nil {
			_, full = syscall.Write(int(fd), make([]byte, 4096))
		}
		return true
	}); err != nil || !errors.Is(full, syscall.EAGAIN) {
		t.Fatalf("fill a pipe: %v, %v", err, full)
	}
}

// awaitWrite returns when a thread of a process is in write(1, …), see proc_pid_syscall(5).
func awaitWrite(t *testing.T, pid int, ended <-chan struct{}) {
	t.Helper()
	for {
		stacks, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/syscall")
		for _, stack := range stacks {
			if where, _ := os.ReadFile(stack); strings.HasPrefix(string(where), "1 0x1 ") {
				return
			}
		}
		select {
		case <-ended:
			t.Fatal("it has ended before it wrote")
		default:
		}
	}
}
