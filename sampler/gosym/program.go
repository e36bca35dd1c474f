package gosym

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/privilege"
)

// program is the program that a process runs. Exec changes it: process number, pidfd and
// start time stay.
type program struct {
	exe           string // path, as the process sees it
	device, inode uint64 // of the executable
	aux           string // auxiliary vector: addresses, which ASLR draws anew at each exec
}

// programOf finds out which program a process runs. Of one that has ended, or not yet
// begun, the vector is empty.
func programOf(pid int, w *hang.Watch) (p program, err error) {
	err = w.Call(func() (err error) {
		p, err = readProgram(pid)
		return err
	})
	return p, err
}

func readProgram(pid int) (program, error) {
	exe, err := executablePath(pid)
	if err != nil {
		return program{}, fmt.Errorf("find executable of process %d: %w", pid, err)
	}
	stat, err := statExecutable(pid)
	if err != nil {
		return program{}, fmt.Errorf("find executable of process %d: %w", pid, err)
	}
	f, err := openProc(pid, "auxv")
	if err != nil {
		return program{}, fmt.Errorf("read auxiliary vector: %w", err)
	}
	defer f.Close()
	const maxAux = 4 << 10 // bytes; Linux 6.12 has 400
	aux, err := io.ReadAll(io.LimitReader(f, maxAux))
	if err != nil && !errors.Is(err, unix.ESRCH) {
		return program{}, fmt.Errorf("read auxiliary vector: %w", err)
	}
	return program{exe: exe, device: uint64(stat.Dev), inode: stat.Ino, aux: string(aux)}, nil
}

func statExecutable(pid int) (stat unix.Stat_t, err error) {
	defer privilege.Raise().Lower()
	return stat, unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &stat)
}

// loadOne loads symbols of one program: again where the process has replaced itself
// meanwhile, a few times, since symbols of two programs fit neither.
func loadOne(of func() (program, error), load func(program) (*Table, error)) (*Table, error) {
	const tries = 3
	for range tries {
		before, err := of()
		if err != nil {
			return nil, err
		}
		t, failed := load(before)
		after, err := of()
		if err != nil || after == before { // it has ended, or is the same
			return t, failed
		}
		if t != nil {
			t.Close() // files that were only read
		}
	}
	return nil, ErrReplaced
}

// SameProgram returns [ErrReplaced] if the process has replaced itself by another program
// (exec) since its symbols were loaded.
func (t *Table) SameProgram() error {
	if t.pid == 0 {
		return nil
	}
	now, err := programOf(t.pid, t.watch)
	if err == nil && now != t.program {
		err = ErrReplaced
	}
	return err
}
