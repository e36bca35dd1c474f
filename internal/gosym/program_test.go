package gosym

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestLoadOne: symbols that were loaded across an exec are loaded again, a few times.
func TestLoadOne(t *testing.T) {
	t.Parallel()
	table, failure := &Table{}, errors.New("failure")
	for name, c := range map[string]struct {
		programs []string // one before each load and one after; "-": the process has ended
		loads    []error
		want     error
	}{
		"the same":                  {[]string{"a", "a"}, []error{nil}, nil},
		"the same, and an error":    {[]string{"a", "a"}, []error{failure}, failure},
		"replaced":                  {[]string{"a", "b", "b", "b"}, []error{nil, nil}, nil},
		"an error, and replaced":    {[]string{"a", "b", "b", "b"}, []error{failure, nil}, nil},
		"replaced again and again":  {[]string{"a", "b", "b", "c", "c", "d"}, []error{nil, nil, nil}, ErrReplaced},
		"ended before":              {[]string{"-"}, nil, fs.ErrNotExist},
		"ended after":               {[]string{"a", "-"}, []error{nil}, nil},
		"ended as it was read":      {[]string{"a", "-"}, []error{ErrUnsupported}, fs.ErrNotExist},
		"an error":                  {[]string{"a", "a"}, []error{failure}, failure},
		"replaced, and then ended":  {[]string{"a", "b", "-"}, []error{nil}, fs.ErrNotExist},
		"replaced, and back to one": {[]string{"a", "b", "a", "a"}, []error{nil, nil}, nil},
	} {
		got, err := loadOne(func() (program, error) {
			now := c.programs[0]
			c.programs = c.programs[1:]
			if now == "-" {
				return program{}, fs.ErrNotExist
			}
			return program{addresses: now}, nil
		}, testBudget(), func(program) (*Table, error) {
			err := c.loads[0]
			if c.loads = c.loads[1:]; err != nil {
				return nil, err
			}
			return table, nil
		})
		if !errors.Is(err, c.want) || (got == nil) != (err != nil) || len(c.programs)+len(c.loads) > 0 {
			t.Errorf("%s: %v, %v, want %v; %d asked, %d loaded too few", name, got, err, c.want, len(c.programs), len(c.loads))
		}
	}
}

// TestTriesShareABudget: a target that replaces itself during each load gets no more time,
// steps and bytes than another, but each try may hold as much as the first.
func TestTriesShareABudget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		draw func(*budget) error // half of a budget, and less than the rest
		want int                 // tries that have enough
	}{
		"steps":    {func(b *budget) error { return b.work(maxWork/2 + 1) }, 1},
		"read":     {func(b *budget) error { return b.reading(maxRead/2 + 1) }, 1},
		"wait":     {func(b *budget) error { return b.waited(time.Now().Add(-maxWait/2 - time.Millisecond)) }, 1},
		"hold":     {func(b *budget) error { return b.holding(maxHeld/2 + 1) }, 3},
		"all held": {func(b *budget) error { b.holding(maxHeld + 1); return nil }, 3},
	} {
		b, programs, enough := testBudget(), 0, 0
		_, err := loadOne(func() (program, error) {
			programs++
			return program{inode: uint64(programs)}, nil
		}, b, func(program) (*Table, error) {
			err := c.draw(b)
			if err == nil {
				enough++
			}
			return nil, err
		})
		if enough != c.want || !errors.Is(err, ErrReplaced) {
			t.Errorf("%s: %d tries had enough, want %d; error %v", name, enough, c.want, err)
		}
	}
}

// TestExecIsNoticed: after an exec of the same executable the program is another one.
func TestExecIsNoticed(t *testing.T) {
	t.Parallel()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `echo a; read x; exec sh -c 'echo b; read x'`)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	read := func() program {
		if _, err := io.ReadFull(out, make([]byte, 2)); err != nil {
			t.Fatal(err)
		}
		p, err := programOf(cmd.Process.Pid, nil)
		if err != nil || strings.HasPrefix(p.addresses, "0 ") || p.inode == 0 {
			t.Fatalf("%+v, %v", p, err)
		}
		return p
	}
	before := read()
	table := &Table{pid: cmd.Process.Pid, program: before}
	if err := table.SameProgram(); err != nil {
		t.Error(err)
	}
	io.WriteString(in, "x\n")
	if after := read(); after == before || after.exe != before.exe {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if err := table.SameProgram(); !errors.Is(err, ErrReplaced) {
		t.Errorf("after an exec: %v, want %v", err, ErrReplaced)
	}
	if _, err := table.Refresh(context.Background()); !errors.Is(err, ErrReplaced) {
		t.Errorf("refresh: %v, want %v", err, ErrReplaced)
	}
	io.WriteString(in, "x\n")
	cmd.Wait()
}

// TestRenamedExecutableIsNoExec: a deployment puts another file in the executable's
// place while the program runs.
func TestRenamedExecutableIsNoExec(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "cat")
	if err := exec.Command("cp", "/bin/cat", name).Run(); err != nil { // a file that this process writes may be busy (golang/go#22315)
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), name)
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "x"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 1)); err != nil { // it runs
		t.Fatal(err)
	}
	before, err := programOf(cmd.Process.Pid, nil)
	if err != nil {
		t.Fatal(err)
	}
	table := &Table{pid: cmd.Process.Pid, program: before}
	if err := errors.Join(os.Rename(name, name+".old"), table.SameProgram()); err != nil {
		t.Errorf("renamed: %v", err)
	}
	if err := errors.Join(os.Remove(name+".old"), table.SameProgram()); err != nil {
		t.Errorf("removed: %v", err)
	}
}
