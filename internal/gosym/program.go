package gosym

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/internal/hang"
	"github.com/ccmapd/ccmapd/internal/privilege"
	"github.com/ccmapd/ccmapd/internal/process"
)

// program is the program that a process runs. Exec changes it: process number, pidfd and
// start time stay.
type program struct {
	exe           string // path, as the process sees it
	device, inode uint64 // of the executable
	addresses     string // of code and stack, which ASLR draws anew at each exec
}

// same says whether no exec lies between. The executable can have got another name, or
// none.
func (p program) same(q program) bool {
	p.exe = q.exe
	return p == q
}

// programOf finds out which program a process runs. The addresses of one that has ended
// are zeros.
func programOf(pid int, w *hang.Watch) (p program, err error) {
	err = w.Call(func() (err error) {
		p, err = readProgram(pid)
		return err
	})
	return p, err
}

func readProgram(pid int) (program, error) {
	exe, err := process.Executable(pid)
	if err != nil {
		return program{}, fmt.Errorf("find executable of process %d: %w", pid, err)
	}
	stat, err := statExecutable(pid)
	if err != nil {
		return program{}, fmt.Errorf("find executable of process %d: %w", pid, err)
	}
	state, err := process.ReadStat(pid)
	if err != nil {
		return program{}, fmt.Errorf("find where process %d has its program: %w", pid, err)
	}
	return program{exe: exe, device: uint64(stat.Dev), inode: stat.Ino, addresses: state.Addresses}, nil
}

func statExecutable(pid int) (stat unix.Stat_t, err error) {
	defer privilege.Raise().Lower()
	return stat, unix.Stat(fmt.Sprintf("/proc/%d/exe", pid), &stat)
}

// loadOne loads symbols of one program: again where the process has replaced itself
// meanwhile, a few times, since symbols of two programs fit neither. All tries draw from
// one budget.
func loadOne(of func() (program, error), b *budget, load func(program) (*Table, error)) (*Table, error) {
	const tries = 3
	for i := 0; i < tries && b.again(); i++ {
		before, err := of()
		if err != nil {
			return nil, err
		}
		t, failed := load(before)
		after, err := of()
		switch {
		case err != nil && failed != nil: // what was read of a process as it ended says nothing about its program
			return nil, err
		case err != nil || after.same(before):
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
	now, err := programOf(t.pid, t.watch)
	if err == nil && !now.same(t.program) {
		err = ErrReplaced
	}
	return err
}
