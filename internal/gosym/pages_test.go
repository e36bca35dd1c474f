package gosym

import (
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTablesInFile reads functions, stack offsets and logical frames of this program twice:
// from tables in memory, and from tables that stay in its file. Both must be equal.
func TestTablesInFile(t *testing.T) {
	t.Parallel()
	table := openSelf(t)
	held := table.modules[0]
	maps, err := readMaps(testBudget(), os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	l := &load{budget: testBudget(), mem: table.mem, maps: maps}
	d, err := readModuledata(l, held.data)
	if err != nil {
		t.Fatal(err)
	}
	paged, p := *held, pagesOf(l, held.image)
	var found [2]bool
	paged.funcs, found[0] = p.inFile(held.image, d.funcs)
	paged.pctab, found[1] = p.inFile(held.image, d.pctab)
	if !found[0] || !found[1] {
		t.Fatalf("tables in the file: %v", found)
	}
	b := testBudget()
	for i := range held.nfunc {
		want, ok := held.record(i)
		got, same := paged.record(i)
		if ok != same || want != got {
			t.Fatalf("record %d: %+v, %v; want %+v, %v", i, got, same, want, ok)
		}
		pc := (want.entry + want.end) / 2
		if got, want := paged.value(b, want, want.pcsp, pc), held.value(b, want, want.pcsp, pc); got != want {
			t.Fatalf("SP delta of %d: %d, want %d", i, got, want)
		}
		if diff := cmp.Diff(held.expand(b, want, pc, nil), paged.expand(b, want, pc, nil)); diff != "" {
			t.Fatalf("frames of %d (-held +paged):\n%s", i, diff)
		}
	}
	if l.spent != nil || b.spent != nil {
		t.Errorf("budgets: %v, %v", l.spent, b.spent)
	}
}

// TestPages reads every offset of tables that end in the middle of a page, and at its end.
func TestPages(t *testing.T) {
	t.Parallel()
	const off = 100
	for _, size := range []int{1, 2*pageSize - off, 3*pageSize - off - 1, 3 * pageSize} {
		file := make([]byte, off+size)
		for i := range file {
			file[i] = byte(i * 7 >> 3)
		}
		table := bytesTable{file: &pages{r: bytes.NewReader(file), read: testBudget().readPage}, off: off, size: uint64(size)}
		for at := range size + 1 {
			rest := file[off+at:]
			if got := table.from(uint64(at)); len(got) < min(leastBytes, len(rest)) || !bytes.HasPrefix(rest, got) {
				t.Fatalf("%d bytes of a table of %d bytes at %d", len(got), size, at)
			}
		}
	}
}

// failing is a file that cannot be read for a while.
type failing struct {
	io.ReaderAt
	err error
}

func (f *failing) ReadAt(p []byte, off int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.ReaderAt.ReadAt(p, off)
}

// TestPagesFail: a page that cannot be read now is asked for again, and its absence makes
// an answer incomplete.
func TestPagesFail(t *testing.T) {
	t.Parallel()
	table := lateTable()
	file := &failing{bytes.NewReader([]byte("content")), errors.New("no disk")}
	tables := bytesTable{file: &pages{r: file, read: table.readPage}, size: 7}
	for _, step := range []struct {
		name string
		do   func()
		want string
	}{
		{"no disk", func() {}, ""},
		{"no steps", func() { file.err = nil; table.Limit(1) }, ""},
		{"no time", func() { table.Limit(1 << 30); table.late.pages = 0 }, ""},
		{"all is well", func() { table.Limit(1 << 30); table.Renew(maxLate) }, "content"},
		{"from the page", func() { file.err = errors.New("no disk") }, "content"},
	} {
		step.do()
		if got := string(tables.from(0)); got != step.want || table.Exceeded() != (got == "") {
			t.Errorf("%s: %q, want %q; the answer is incomplete: %t", step.name, got, step.want, table.Exceeded())
		}
	}
}
