package gosym

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// unreadable is the memory of a process that may be seen, and not read.
type unreadable struct{}

func (unreadable) readAt([]byte, uint64) error { return unix.EPERM }

// TestUnreadableMemory: a process whose memory the kernel does not let this user read, as Yama does, is refused with that reason.
// It is not said to be no Go program, and nothing is logged of each of its files.
func TestUnreadableMemory(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	table := newTable(os.Getpid(), unreadable{}, exe, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	b, end := beginLoad(newBudget(t.Context(), 0), readRunDelay)
	defer end()
	if _, err := table.reload(b); !errors.Is(err, fs.ErrPermission) || errors.Is(err, ErrNotGo) || log.Len() > 0 {
		t.Errorf("%v\n%s", err, &log)
	}
}
