// Package kallsyms names the kernel's functions by their addresses, out of /proc/kallsyms.
//
// The kernel shows the addresses to a process that has CAP_SYSLOG when it opens the file, and zeros to others
// (kallsyms_show_value in kernel/ksyms_common.c, Linux 6.18). With kernel.kptr_restrict=0 it also shows them if
// kernel.perf_event_paranoid is 1 or less. So [Read] must come before this process drops its capabilities.
// The addresses tell where the kernel lies, which attackers look for: nothing of this package returns one.
package kallsyms

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ccmapd/ccmapd/internal/advice"
)

// Table holds the functions of the kernel and its modules, as they were when it was read. Any goroutine may call
// its methods.
type Table struct {
	list  []function // sorted by address; no two have the same
	names string
}

type function struct {
	addr  uint64
	begin uint32 // of the name in names
	size  uint8  // of the name, bytes
}

// Bounds of the file. A kernel of a distribution has 200,000 symbols, and names of up to 511 bytes
// (KSYM_NAME_LEN), which are cut.
const (
	maxBytes   = 128 << 20
	maxSymbols = 1 << 21
	maxName    = 255
)

// ErrHidden says that the kernel shows no addresses to this process. It has advice.
var ErrHidden = errors.New("the kernel hides the addresses of its functions from this process")

// Read reads the functions of the running kernel.
func Read() (*Table, error) {
	f, err := os.Open("/proc/kallsyms")
	if err != nil {
		return nil, fmt.Errorf("read names of the kernel's functions: %w", err)
	}
	defer f.Close()
	t, err := parse(f)
	if err != nil {
		return nil, fmt.Errorf("read names of the kernel's functions: %w", err)
	}
	return t, nil
}

// parse reads lines "address type name [module]" (proc_kallsyms(5)).
func parse(r io.Reader) (*Table, error) {
	t := new(Table)
	var names strings.Builder
	lines, hidden := bufio.NewScanner(io.LimitReader(r, maxBytes)), false
	for lines.Scan() && len(t.list) < maxSymbols {
		addr, name, ok := parseLine(lines.Text())
		if !ok {
			continue
		}
		if addr == 0 {
			hidden = true
			continue
		}
		t.list = append(t.list, function{addr, uint32(names.Len()), uint8(len(name))})
		names.WriteString(name)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(t.list) == 0 && hidden {
		return nil, advice.Add(ErrHidden, "Run ccmapd as root or with CAP_SYSLOG; where kernel.kptr_restrict is 2, set it to 1.")
	}
	if len(t.list) == 0 {
		return nil, errors.New("it has none (CONFIG_KALLSYMS)")
	}
	t.names = names.String()
	slices.SortStableFunc(t.list, func(a, b function) int { return cmp.Compare(a.addr, b.addr) })
	t.list = slices.Clip(t.unaliased())
	return t, nil
}

// parseLine returns a function, and false for data and for what is no line.
func parseLine(line string) (addr uint64, name string, ok bool) {
	digits, rest, _ := strings.Cut(line, " ")
	kind, rest, _ := strings.Cut(rest, " ")
	if len(kind) != 1 || !strings.Contains("tTwW", kind) {
		return 0, "", false
	}
	addr, err := strconv.ParseUint(digits, 16, 64)
	name, _, _ = strings.Cut(rest, "\t")
	name = name[:min(len(name), maxName)]
	return addr, name, err == nil && name != ""
}

// unaliased keeps one of the names of each address: with the fewest leading underscores, and then the first.
func (t *Table) unaliased() []function {
	underscores := func(f function) int {
		name := t.name(f)
		return len(name) - len(strings.TrimLeft(name, "_"))
	}
	kept := t.list[:0]
	for _, f := range t.list {
		last := len(kept) - 1
		switch {
		case last < 0 || kept[last].addr != f.addr:
			kept = append(kept, f)
		case underscores(f) < underscores(kept[last]):
			kept[last] = f
		}
	}
	return kept
}

func (t *Table) name(f function) string { return t.names[f.begin : f.begin+uint32(f.size)] }

// Name returns the name of the function that an instruction belongs to. For a return address ask one byte
// before it.
func (t *Table) Name(pc uint64) (string, bool) {
	i, exact := slices.BinarySearchFunc(t.list, pc, func(f function, pc uint64) int { return cmp.Compare(f.addr, pc) })
	if !exact {
		i--
	}
	if i < 0 {
		return "", false
	}
	return t.name(t.list[i]), true
}
