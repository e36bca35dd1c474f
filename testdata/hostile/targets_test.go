package hostile

import (
	"bytes"
	"debug/elf"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// TestTargetsRun starts each kind. It must run on until it is killed.
func TestTargetsRun(t *testing.T) {
	t.Parallel()
	for i, target := range All() {
		path := filepath.Join(t.TempDir(), "target")
		if err := target.Make().Write(path); err != nil {
			t.Errorf("%s: %v", target.Name, err)
			continue
		}
		cmd := exec.Command(path)
		if err := cmd.Start(); err != nil {
			t.Errorf("%d %s: %v", i, target.Name, err)
			continue
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		select {
		case err := <-ended:
			t.Errorf("%d %s: %v", i, target.Name, err)
		case <-time.After(50 * time.Millisecond): // a program that crashes does so at once
			cmd.Process.Kill()
			<-ended
		}
		os.Remove(path)
	}
}

// TestSound: the program that all others break is an ELF file that readers accept.
func TestSound(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sound")
	if err := sound().Write(path); err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".go.module")
	if s == nil || s.Addr != base+first {
		t.Errorf("section %+v", s)
	}
	info, err := f.Section(".go.buildinfo").Data()
	if err != nil || !bytes.Contains(info, []byte("go1.26.8")) {
		t.Errorf("build information %q, %v", info, err)
	}
	if err := sound().Write(filepath.Join(path, "below")); !errors.Is(err, unix.ENOTDIR) {
		t.Errorf("error %v", err)
	}
}
