package kallsyms

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
)

const made = `ffffffff81000000 T _stext
ffffffff81000000 T startup_64
ffffffff81001000 t __pfx_tcp_sendmsg
ffffffff81001010 T tcp_sendmsg
ffffffff81002000 D jiffies
ffffffff81003000 T __x64_sys_writev
ffffffff81003000 t writev_alias
ffffffffc0001000 t ext4_write	[ext4]
`

// TestName looks addresses up. Data is no function, and of aliases one has the address.
func TestName(t *testing.T) {
	t.Parallel()
	table, err := parse(strings.NewReader(made))
	if err != nil {
		t.Fatal(err)
	}
	for pc, want := range map[uint64]string{
		0xffffffff80ffffff: "",
		0xffffffff81000000: "startup_64",
		0xffffffff81001010: "tcp_sendmsg",
		0xffffffff81002fff: "tcp_sendmsg",
		0xffffffff81003001: "writev_alias",
		0xffffffffc0001fff: "ext4_write",
	} {
		if got, ok := table.Name(pc); got != want || ok != (want != "") {
			t.Errorf("%#x: %q, %t, want %q", pc, got, ok, want)
		}
	}
}

// TestHidden: a file of zeros is a refusal of the kernel's.
func TestHidden(t *testing.T) {
	t.Parallel()
	if _, err := parse(strings.NewReader("0000000000000000 T _stext\n0000000000000000 T tcp_sendmsg\n")); !errors.Is(err, ErrHidden) {
		t.Errorf("zeros: %v", err)
	}
	if _, err := parse(strings.NewReader("")); err == nil || errors.Is(err, ErrHidden) {
		t.Errorf("nothing: %v", err)
	}
}

// TestRead reads the running kernel's functions.
func TestRead(t *testing.T) {
	t.Parallel()
	table, err := Read()
	if errors.Is(err, ErrHidden) || errors.Is(err, os.ErrNotExist) {
		testrun.Lacks(t, "%v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range table.list {
		if table.name(f) == "vfs_read" {
			if name, ok := table.Name(f.addr + 1); name != "vfs_read" || !ok {
				t.Errorf("in vfs_read: %q", name)
			}
			return
		}
	}
	t.Errorf("no vfs_read in %d functions", len(table.list))
}

// FuzzKallsyms takes any text for the file.
func FuzzKallsyms(f *testing.F) {
	f.Add(made, uint64(0xffffffff81001010))
	f.Add("1 t \x1b[2J\n2 T "+strings.Repeat("x", 600), uint64(3))
	f.Fuzz(func(t *testing.T, text string, pc uint64) {
		table, err := parse(strings.NewReader(text))
		if err != nil {
			return
		}
		if name, ok := table.Name(pc); ok && (name == "" || len(name) > maxName) {
			t.Errorf("%q", name)
		}
	})
}
