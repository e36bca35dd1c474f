package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/daemon"
)

// storeSize is the size of the disk that is filled, bytes.
const storeSize = 64 << 20

// mountStore gives the daemon's files a small disk of their own.
func (s *stage) mountStore(context.Context) error {
	err := os.Mkdir(s.store, 0o755)
	if err == nil {
		err = unix.Mount("ccmapd", s.store, "tmpfs", 0, fmt.Sprintf("size=%d,mode=750", storeSize))
	}
	if err != nil {
		return fmt.Errorf("mount a small disk, which needs CAP_SYS_ADMIN: %w", err)
	}
	return nil
}

// unmountStore undoes mountStore.
func (s *stage) unmountStore() { unix.Unmount(s.store, unix.MNT_DETACH) }

// fillDisk fills the disk after a third of the time, and frees it after two thirds.
func (s *stage) fillDisk(ctx context.Context) (string, error) {
	third := max(s.span/3, 2*rotation)
	time.Sleep(third)
	ballast := filepath.Join(s.store, "ballast")
	if err := fill(ballast); !errors.Is(err, unix.ENOSPC) {
		return "", fmt.Errorf("the disk is not full: %w", err)
	}
	const says = "cannot file period"
	time.Sleep(third)
	for deadline := time.Now().Add(longestEnd); !strings.Contains(s.served.says(), says) && time.Now().Before(deadline); {
		time.Sleep(10 * time.Millisecond)
	}
	refused := strings.Count(s.served.says(), says)
	err := os.Remove(ballast)
	if refused == 0 {
		err = errors.Join(err, errors.New("the daemon has not told that it cannot write"))
	}
	time.Sleep(third)
	return fmt.Sprintf("%d periods could not be filed at once, and no sample is missing", refused), errors.Join(err, s.goesOn(ctx))
}

// fill writes a file until there is no room.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for block := make([]byte, 1<<20); ; {
		if n, err := f.Write(block); err != nil && n == 0 {
			return err
		}
	}
}

// clockVariable names the file with the seconds that a jumping ccmapd adds to the wall clock.
const clockVariable = "CCMAPD_TEST_CLOCK"

// jumpSource is a file more in package time.
const jumpSource = `package time

import (
	"sync/atomic"
	"syscall"
	"unsafe"
)

var jumpPage = mapJump()

func mapJump() []byte {
	path, _ := syscall.Getenv("` + clockVariable + `")
	fd, err := syscall.Open(path, syscall.O_RDONLY, 0)
	if err != nil {
		return nil
	}
	page, _ := syscall.Mmap(fd, 0, 8, syscall.PROT_READ, syscall.MAP_SHARED)
	return page
}

// jumped returns the seconds to add to the wall clock.
func jumped() int64 {
	if len(jumpPage) == 0 {
		return 0
	}
	return atomic.LoadInt64((*int64)(unsafe.Pointer(&jumpPage[0])))
}
`

// buildJumping builds a ccmapd whose time.Now adds the seconds in a file to the wall clock: the
// clock of the machine is everyone's, and no time namespace has a wall clock of its own
// (time_namespaces(7)). The monotonic clock goes on, as when the wall clock is set.
func (s *stage) buildJumping(ctx context.Context) error {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return err
	}
	source := filepath.Join(strings.TrimSpace(string(root)), "src", "time")
	text, err := os.ReadFile(filepath.Join(source, "time.go"))
	if err != nil {
		return err
	}
	const reads = "func Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if !strings.Contains(string(text), reads) {
		return errors.New("this version of Go reads the clock in another way: see time.Now")
	}
	overlay := map[string]map[string]string{"Replace": {
		filepath.Join(source, "time.go"): filepath.Join(s.folder, "time.go"),
		filepath.Join(source, "jump.go"): filepath.Join(s.folder, "jump.go"),
	}}
	list, err := json.Marshal(overlay)
	for name, text := range map[string]string{
		"time.go": strings.Replace(string(text), reads, reads+"\tsec += jumped()\n", 1), "jump.go": jumpSource, "overlay.json": string(list),
	} {
		err = errors.Join(err, os.WriteFile(filepath.Join(s.folder, name), []byte(text), 0o644))
	}
	if err != nil {
		return err
	}
	s.still = s.Ccmapd
	if s.Ccmapd, err = s.build(ctx, "ccmapd-jumping", "./cmd/ccmapd", "-overlay="+filepath.Join(s.folder, "overlay.json")); err != nil {
		return err
	}
	return errors.Join(s.jump(0), os.Setenv(clockVariable, s.clockFile()))
}

func (s *stage) clockFile() string { return filepath.Join(s.folder, "clock") }

// buildStill undoes buildJumping.
func (s *stage) buildStill() {
	os.Unsetenv(clockVariable)
	if s.still != "" {
		os.Remove(s.Ccmapd)
		s.Ccmapd = s.still
	}
}

// jump sets the daemon's wall clock so far off.
func (s *stage) jump(off time.Duration) error {
	f, err := os.OpenFile(s.clockFile(), os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteAt(binary.NativeEndian.AppendUint64(nil, uint64(off/time.Second)), 0)
	return err
}

// jumps makes the daemon's wall clock jump ahead and back, by up to two days.
func (s *stage) jumps(ctx context.Context) (string, error) {
	const most = 48 * time.Hour
	n, err := s.repeat(ctx, rotation+rotation/2, func() error { return s.jump(time.Duration(s.Int64N(int64(2*most))) - most) })
	return fmt.Sprintf("%d jumps", n), err
}

// exhaust leaves the daemon no descriptor for half of the time, while clients connect and a
// program starts that is a target.
func (s *stage) exhaust(ctx context.Context) (string, error) {
	pid := s.served.pid()
	var before unix.Rlimit
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &before); err != nil {
		return "", err
	}
	const few, clients = 2, 20
	scarce := unix.Rlimit{Cur: uint64(descriptors(pid) + few), Max: before.Max}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &scarce, nil); err != nil {
		return "", err
	}
	var open []net.Conn
	for range clients {
		if c, err := net.Dial("unix", s.served.socket); err == nil {
			open = append(open, c)
		}
	}
	if err := s.link("late"); err != nil {
		return "", err
	}
	late, err := s.computeBy(ctx, []string{s.executable("late"), "eases"})
	if err != nil {
		return "", err
	}
	defer late.stop()
	time.Sleep(max(s.span/2, 3*time.Second))
	for _, c := range open {
		c.Close()
	}
	if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &before, nil); err != nil {
		return "", err
	}
	began := time.Now()
	err = s.served.awaits(ctx, "begin", []string{"late"}, func(t daemon.TargetStatus) bool { return sampled(t, late.pid()) })
	took := time.Since(began)
	time.Sleep(s.span / 2)
	return fmt.Sprintf("a program that started meanwhile is sampled %.1f s after the end", took.Seconds()), errors.Join(err, s.goesOn(ctx))
}
