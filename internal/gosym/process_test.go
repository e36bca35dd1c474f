package gosym

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/internal/programtest"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

type goReport struct {
	PCs    []uint64
	Frames []goFrame
	Reach  map[string]uint64
}

type goFrame struct {
	Name, File string
	Line       int
}

// physical returns the program counters that are return addresses on the
// stack: runtime.Callers gives one for every inlined call as well.
func (r goReport) physical(table *Table) []uint64 {
	var pcs []uint64
	for i := 0; i < len(r.PCs); {
		pcs = append(pcs, r.PCs[i])
		i += max(len(table.inlined(r.PCs[i], true, nil)), 1)
	}
	return pcs
}

// described looks a whole stack up, all its addresses being return addresses.
func described(table *Table, pcs []uint64) []goFrame {
	var out []goFrame
	for _, pc := range pcs {
		for _, f := range table.inlined(pc, true, nil) {
			out = append(out, goFrame{printed(f.Name), f.File, int(f.Line)})
		}
	}
	return out
}

func TestProcess(t *testing.T) {
	for name, b := range map[string]build{"plain": plain, "stripped PIE": strippedPIE} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, want, table := reported[goReport](t, b)
			if diff := cmp.Diff(want.Frames, described(table, want.physical(table))); diff != "" {
				t.Errorf("frames (-runtime +table):\n%s", diff)
			}
			if table.GoVersion() != runtime.Version() {
				t.Errorf("Go version %q, want %q", table.GoVersion(), runtime.Version())
			}
			if got, want := table.BuildID(), gnuBuildID(t, p.Path); got != want {
				t.Errorf("build id %q, want %q", got, want)
			}
		})
	}
}

// gnuBuildID reads the note of Go's linker by the name of its section.
func gnuBuildID(t *testing.T, path string) string {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	note, err := f.Section(".note.gnu.build-id").Data()
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(note[16:])
}

// TestBuildID wants the GNU build id, else Go's, else the hash of the code: never a path.
func TestBuildID(t *testing.T) {
	t.Parallel()
	goID := func(path string) string {
		id, err := exec.Command(programtest.GoTool(t, "buildid"), path).Output()
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(id))
	}
	for _, test := range []struct {
		flags string
		want  func(path string) string
	}{
		{"", func(path string) string { return gnuBuildID(t, path) }},
		{"-B=none", goID},
		{"-B=none -buildid=", func(path string) string { return identityOf(t, path) }},
	} {
		path := filepath.Join(t.TempDir(), "target")
		if out, err := exec.Command("go", "build", "-o", path, "-ldflags="+test.flags, "./testdata/target").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		table, err := OpenFile(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, want := table.BuildID(), test.want(path); got != want {
			t.Errorf("%q: build id %q, want %q", test.flags, got, want)
		}
		if err := table.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOrigin: a table says how it found its symbols, and what the program's file lacks.
func TestOrigin(t *testing.T) {
	t.Parallel()
	const found = "section .go.module"
	for name, test := range map[string]struct {
		build build
		want  Origin
	}{
		"plain":        {plain, Origin{FoundBy: found, Read: true}},
		"stripped PIE": {strippedPIE, Origin{FoundBy: found, Read: true, Stripped: true}},
		"cgo":          {withCgo, Origin{FoundBy: found, Read: true, Cgo: true}},
		"stripped cgo": {cgoPIE, Origin{FoundBy: found, Read: true, Stripped: true, Cgo: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, table := reported[any](t, test.build)
			if got := table.Origin(); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}

// TestStack looks a stack up as an unwinder does, after the target has ended.
func TestStackOfEndedProcess(t *testing.T) {
	t.Parallel()
	p, want, table := reported[goReport](t, plain)
	pcs := want.physical(table)
	p.stop()

	names := ccmap.NewNames()
	pcs[0]-- // runtime.Callers gives a return address for the innermost, too
	var got []goFrame
	for _, f := range table.Stack(pcs, names, nil) {
		m := names.At(f.Method)
		got = append(got, goFrame{printed(m.Name), m.File, int(m.StartLine) + int(int32(f.Offset))})
		if m.Module != table.BuildID() {
			t.Errorf("%s: module %q, want %q", m.Name, m.Module, table.BuildID())
		}
	}
	if diff := cmp.Diff(want.Frames, got); diff != "" {
		t.Errorf("stack (-runtime +table):\n%s", diff)
	}
	if root, ok := table.Func(pcs[len(pcs)-1]); !ok || !root.IsRoot() || root.ID != FuncGoexit {
		t.Errorf("outermost function %+v, want goexit", root)
	}
}

// TestStackSaysWhatWasInlined holds the calls that the names know as inlined against
// those that share a physical frame.
func TestStackSaysWhatWasInlined(t *testing.T) {
	t.Parallel()
	_, want, table := reported[goReport](t, plain)
	names, inlined := ccmap.NewNames(), 0
	var callee ccmap.Frame
	for i, pc := range want.physical(table)[1:] {
		for j, f := range table.Stack([]uint64{pc}, names, nil) {
			if i+j > 0 && names.Inlined(f, callee.Method) != (j > 0) {
				t.Errorf("%s, called at %s%+d: inlined %t", names.At(callee.Method).Name, names.At(f.Method).Name, int32(f.Offset), j == 0)
			}
			inlined += min(j, 1)
			callee = f
		}
	}
	if inlined == 0 {
		t.Error("nothing was inlined")
	}
}

// TestMethodAt names what calls through an interface reach: the wrapper of the
// dynamic type.
func TestMethodAt(t *testing.T) {
	t.Parallel()
	_, r, table := reported[goReport](t, plain)
	names := ccmap.NewNames()
	type reached struct {
		Name, Receiver string
		Wrapper        bool
	}
	got := make(map[string]reached)
	for typ, entry := range r.Reach {
		id, ok := table.MethodAt(entry, names)
		if !ok {
			t.Errorf("%s: no method at %#x", typ, entry)
			continue
		}
		if _, ok := table.MethodAt(entry+1, names); ok {
			t.Errorf("%s: a method begins behind its entry", typ)
		}
		m := names.At(id)
		got[typ] = reached{m.Name, m.Receiver, table.InWrapper(entry)}
	}
	want := map[string]reached{
		"main.square":             {"main.(*square).visit", "*main.square", true},
		"*main.square":            {"main.(*square).visit", "*main.square", true},
		"main.promoted":           {"main.(*promoted).visit", "*main.promoted", true},
		"*main.promoted":          {"main.(*promoted).visit", "*main.promoted", true},
		"main.forwarding":         {"main.(*forwarding).visit", "*main.forwarding", true},
		"*main.list[int]":         {"main.(*list[int]).visit", "*main.list[int]", true},
		"*main.list[string]":      {"main.(*list[string]).visit", "*main.list[string]", true},
		"struct { *main.square }": {"go:struct { *main.square }.main.visit", "struct { *main.square }", true},
		"struct { main.promoted; x int }": {
			"go:(*struct { main.promoted; main.x int }).main.visit", "*struct { main.promoted; main.x int }", true,
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("methods reached (-want +got):\n%s", diff)
	}
	if root, ok := table.Func(r.PCs[len(r.PCs)-1]); !ok || table.InWrapper(root.Entry) {
		t.Errorf("%s is taken for a wrapper", root.Name)
	}
	if _, ok := table.MethodAt(8, names); ok || table.InWrapper(8) {
		t.Error("there is a method at address 8")
	}
}

type cReport struct{ Go, Own, Libc, Loaded uint64 }

func TestCgoProcess(t *testing.T) {
	for name, b := range map[string]build{"plain": withCgo, "stripped PIE": cgoPIE} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, at, table := reported[cReport](t, b)
			own := "own_function"
			if b.flags != nil {
				own = ccmap.UnknownName // stripped, and not exported
			}
			got := symbolsAt(table, at.Go, at.Own, at.Libc)
			want := []symbolAt{{KindGo, "main.main"}, {KindC, own}, {KindC, "qsort"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("symbols (-want +got):\n%s", diff)
			}
		})
	}
}

type symbolAt struct {
	Kind Kind
	Name string
}

func symbolsAt(table *Table, pcs ...uint64) []symbolAt {
	names := ccmap.NewNames()
	var out []symbolAt
	for _, pc := range pcs {
		frames := table.Stack([]uint64{pc}, names, nil)
		out = append(out, symbolAt{table.Kind(pc), names.At(frames[len(frames)-1].Method).Name})
	}
	return out
}

func TestRefreshFindsLoadedLibrary(t *testing.T) {
	t.Parallel()
	p, at, table := reported[cReport](t, withCgo)
	if _, err := p.in.Write([]byte("libresolv.so.2 ns_parserr\n")); err != nil {
		t.Fatal(err)
	}
	p.read(t, &at)
	if at.Loaded == 0 {
		t.Skip("libresolv.so.2 cannot be loaded")
	}
	if diff := cmp.Diff([]symbolAt{{KindUnknown, ccmap.UnknownName}}, symbolsAt(table, at.Loaded)); diff != "" {
		t.Errorf("before Refresh (-want +got):\n%s", diff)
	}
	if changed, err := table.Refresh(context.Background()); !changed || err != nil {
		t.Fatalf("changed %t, %v", changed, err)
	}
	if changed, err := table.Refresh(context.Background()); changed || err != nil {
		t.Fatalf("the same map again: changed %t, %v", changed, err)
	}
	if diff := cmp.Diff([]symbolAt{{KindC, "ns_parserr"}, {KindGo, "main.main"}}, symbolsAt(table, at.Loaded, at.Go)); diff != "" {
		t.Errorf("after Refresh (-want +got):\n%s", diff)
	}
}

// TestRefreshKeepsRemovedExecutable: a deployment removes the executable of a program that
// runs on, and its symbols stay.
func TestRefreshKeepsRemovedExecutable(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "program")
	if err := exec.Command("cp", withCgo.binary(t), name).Run(); err != nil { // a file that this process writes may be busy (golang/go#22315)
		t.Fatal(err)
	}
	p := start(t, name)
	var at cReport
	p.read(t, &at)
	table := p.open(t)
	before := table.images[0]
	if err := os.Remove(name); err != nil {
		t.Fatal(err)
	}
	if changed, err := table.Refresh(context.Background()); changed || err != nil {
		t.Errorf("changed %t, %v", changed, err)
	}
	if after := table.images[0]; after != before || after.file == nil {
		t.Errorf("the executable %q became %q", before.path, after.path)
	}
}

// TestVDSO looks up every function of the vDSO where the process has it.
func TestVDSO(t *testing.T) {
	t.Parallel()
	table := openSelf(t)
	i := slices.IndexFunc(table.images, (*image).isVDSO)
	if i < 0 {
		t.Skip("no vDSO")
	}
	im := table.images[i]
	table.lookup(im, im.start) // loads the symbols
	if len(im.symbols.list) == 0 {
		t.Fatal("no symbols")
	}
	for _, s := range im.symbols.list {
		want := []symbolAt{{KindVDSO, terminated(im.symbols.names, s.name)}}
		if diff := cmp.Diff(want, symbolsAt(table, s.addr+im.bias)); diff != "" {
			t.Errorf("symbol (-want +got):\n%s", diff)
		}
	}
}

func TestReplacedFileIsRefused(t *testing.T) {
	t.Parallel()
	m := madeModule()
	im := &image{maps: m.space()}
	im.maps[0].write = false
	if err := im.sameFile(m.load(), bytes.NewReader(m.b)); err != nil {
		t.Error(err)
	}
	other := bytes.Clone(m.b)
	other[headSize-1] ^= 1
	if err := im.sameFile(m.load(), bytes.NewReader(other)); err == nil {
		t.Error("another file is taken for the one that is mapped")
	}
}

func TestOpenDeletedExecutable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "program")
	b, err := os.ReadFile(plain.binary(t))
	if err != nil {
		t.Fatal(err)
	}
	programtest.Write(t, path, b)
	p := start(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	var r goReport
	p.read(t, &r)
	if f, ok := p.open(t).Func(r.PCs[0]); !ok || f.Name != "main.stack" {
		t.Errorf("function %+v, want main.stack", f)
	}
}

func TestOpenNotGo(t *testing.T) {
	t.Parallel()
	p := start(t, "sleep", "60")
	_, err := Open(context.Background(), p.Process.Pid, Options{})
	if !errors.Is(err, ErrNotGo) || !strings.Contains(err.Error(), "sleep: no Go program counter table") {
		t.Errorf("error %v, want ErrNotGo that names the program", err)
	}
}

func TestOpenNoProcess(t *testing.T) {
	t.Parallel()
	p := start(t, "true")
	p.stop()
	if _, err := Open(context.Background(), p.Process.Pid, Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want fs.ErrNotExist", err)
	}
}

// TestOpenBeforeRelocation opens a position-independent program at its first
// instruction, and again when it has run.
func TestOpenBeforeRelocation(t *testing.T) {
	t.Parallel()
	path := strippedPIE.binary(t)
	stdin, keep, err := os.Pipe() // the program runs until keep is closed
	if err != nil {
		t.Fatal(err)
	}
	defer keep.Close()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	runtime.LockOSThread() // ptrace belongs to the thread
	defer runtime.UnlockOSThread()
	pid, err := syscall.ForkExec(path, []string{path}, &syscall.ProcAttr{
		Files: []uintptr{stdin.Fd(), in.Fd()},
		Sys:   &syscall.SysProcAttr{Ptrace: true},
	})
	stdin.Close()
	in.Close()
	if err != nil {
		t.Skipf("ptrace: %v", err)
	}
	defer syscall.Wait4(pid, nil, 0, nil)
	defer syscall.Kill(pid, syscall.SIGKILL)
	if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(context.Background(), pid, Options{}); !errors.Is(err, ErrNotReady) {
		t.Errorf("error %v, want ErrNotReady", err)
	}
	openWhenRun(t, pid, out)
}

// openWhenRun detaches from a program and waits until it has printed something.
func openWhenRun(t *testing.T, pid int, out *os.File) {
	if err := syscall.PtraceDetach(pid); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	table, err := Open(context.Background(), pid, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := table.Close(); err != nil {
		t.Error(err)
	}
}

// TestProcMem reads the same by /proc/PID/mem as by process_vm_readv.
func TestProcMem(t *testing.T) {
	t.Parallel()
	f, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip(err)
	}
	fallback := &processMemory{pid: os.Getpid(), file: f}
	defer fallback.Close()
	text := openSelf(t).modules[0]
	read := func(m memory) ([]byte, error) {
		return (&load{budget: testBudget(), mem: m}).bytes(text.minpc, text.maxpc-text.minpc)
	}
	want, err := read(&processMemory{pid: os.Getpid()})
	if err != nil {
		t.Fatal(err)
	}
	got, err := read(fallback)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("memory differs (%v)", err)
	}
	for _, m := range []*processMemory{fallback, {pid: os.Getpid()}} {
		for _, addr := range []uint64{0, 1 << 62, ^uint64(0) - 100} {
			if err := m.readAt(make([]byte, 8), addr); err == nil {
				t.Errorf("read of %#x succeeded", addr)
			}
		}
	}
}

// TestOpenInTarget: the target chooses what stands at the paths of its memory map.
func TestOpenInTarget(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	err := errors.Join(
		os.WriteFile(path("file"), []byte("content"), 0o600),
		os.Symlink("file", path("link")),
		os.Symlink("/proc/self/exe", path("magic")),
		unix.Mkfifo(path("pipe"), 0o600),
	)
	if err != nil {
		t.Fatal(err)
	}
	for name, ok := range map[string]bool{
		path("file"): true, path("link"): true, path("magic"): false, path("pipe"): false, dir: false,
		"/proc/self/exe": false, fmt.Sprintf("/proc/%d/root%s", os.Getpid(), path("file")): false, "/dev/zero": false,
	} {
		f, err := openInTarget(os.Getpid(), name)
		if (err == nil) != ok {
			t.Errorf("open %s: %v", name, err)
		}
		if err == nil {
			f.Close()
		}
	}
}
