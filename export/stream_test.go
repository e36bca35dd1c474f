package export

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// readLater reads a file to its end beside the test.
func readLater(open func() (*os.File, error)) <-chan string {
	got := make(chan string, 1)
	go func() {
		f, err := open()
		if err != nil {
			got <- err.Error()
			return
		}
		defer f.Close()
		text, _ := io.ReadAll(f)
		got <- string(text)
	}()
	return got
}

func TestWriteFileToPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "pipe.xml")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	got := readLater(func() (*os.File, error) { return os.Open(path) })
	writeSmall(t, path)
	if want := encode(t, XML, small().Snapshot()); <-got != want {
		t.Error("the reader of the pipe got another text")
	}
	if mode, _, _ := status(t, path); mode&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is now %v", mode)
	}
}

// TestWriteFileToDevice: a device is not replaced, nor is a link of this user to one.
func TestWriteFileToDevice(t *testing.T) {
	t.Parallel()
	link := filepath.Join(t.TempDir(), "nothing.xml")
	if err := os.Symlink(os.DevNull, link); err != nil {
		t.Fatal(err)
	}
	writeSmall(t, link)
	if mode, _, _ := status(t, link); mode&os.ModeSymlink == 0 {
		t.Errorf("the link is now %v", mode)
	}
	if err := WriteFileAs(os.DevNull, XML, small().Snapshot()); err != nil {
		t.Error(err)
	}
	if err := WriteFileAs("/dev/full", XML, small().Snapshot()); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
}

// TestWriteFileToDescriptor: a descriptor that the process was started with is written
// to as it is, its own ones are not.
func TestWriteFileToDescriptor(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	path := "/dev/fd/" + strconv.Itoa(int(w.Fd()))
	if IsStream(path) {
		t.Error("a descriptor of the process's own is a stream")
	}
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETFD, 0); err != nil { // as one that was inherited
		t.Fatal(err)
	}
	got := readLater(func() (*os.File, error) { return r, nil })
	err = WriteFileAs(path, JSON, small().Snapshot())
	w.Close()
	if want := encode(t, JSON, small().Snapshot()); err != nil || <-got != want {
		t.Errorf("the reader of the pipe got another text; %v", err)
	}
}

func TestForeignPipe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(sharedDir(t), "pipe.xml")
	if err := errors.Join(unix.Mkfifo(path, 0o666), os.Chown(path, 60001, 60001)); err != nil {
		t.Fatal(err)
	}
	err := WriteFile(path, small().Snapshot())
	if !errors.Is(err, ErrForeignPipe) || !strings.HasPrefix(err.Error(), "write "+path+": ") {
		t.Errorf("got %v", err)
	}
}
