package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/cmd/ccmapd/internal/output"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// smallProfile is a map with all that a file can hold.
func smallProfile() *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	frames := make([]ccmap.Frame, 3)
	for i := range frames {
		frames[i].Method = m.Names().Intern(ccmap.Method{Name: fmt.Sprintf("main.f%d", i), File: "main.go", StartLine: 7})
		frames[i].Offset = uint32(i)
	}
	m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	m.Meta().Engine = "perf"
	return m.Snapshot()
}

// writeFiles puts the profile into a file of each format, and returns them by
// extension.
func writeFiles(t *testing.T, dir string) map[string]string {
	files, extensions := make(map[string]string), []string{"pb.gz", "json.zst"}
	for _, f := range export.Formats() {
		extensions = append(extensions, strings.TrimPrefix(f.Extensions()[0], "."))
	}
	for _, ext := range extensions {
		files[ext] = filepath.Join(dir, "small."+ext)
		if err := export.WriteFile(files[ext], smallProfile()); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// questions are the command lines of all questions about FILE, and of comparisons of it with another profile.
func questions(other string) []string {
	var lines []string
	for _, q := range view.Questions() {
		if q.Name == "heat" {
			continue // a file does not say when its samples were taken
		}
		line := q.Name + " FILE"
		switch q.Subject {
		case view.OfMethod:
			line += " main.f0"
		case view.OfPath:
			line += " main.f1>main.f0"
		case view.OfTwo, view.OfMany:
			line += " " + other
		}
		lines = append(lines, line)
	}
	return lines
}

// readers are the command lines of all commands that read a profile, FILE being
// the profile and OUT a file to be written.
var readers = append(questions("FILE"), "convert FILE OUT", "merge -o OUT FILE", "html -o OUT FILE")

func commandLine(line, file, out string) []string {
	args := strings.Fields(line)
	for i, arg := range args {
		args[i] = strings.NewReplacer("FILE", file, "OUT", out, ">", " > ").Replace(arg)
	}
	return args
}

func runWith(args []string, stdin []byte) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(args, bytes.NewReader(stdin), &out, &errs)
	return code, out.String(), errs.String()
}

// runAlone is runWith in a process of its own: ccmapd takes the CPU time of its process for its cost, and would sample
// seldom, or never, because other tests compute.
func runAlone(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command("ccmapd", args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Error(err)
		return -1, "", ""
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func TestReadersOfEveryFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for ext, file := range writeFiles(t, dir) {
		for _, line := range readers {
			args := commandLine(line, file, filepath.Join(dir, "out.xml"))
			if code, _, stderr := runWith(args, nil); code != exitOK {
				t.Errorf("%s: ccmapd %s: exit code %d, %s", ext, line, code, stderr)
			}
		}
	}
}

// TestHostileFiles: whatever the file, each command says which one it was and
// what is wrong with it, prints nothing else and writes nothing.
func TestHostileFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := map[string]string{ // to what the message must say
		filepath.Join(dir, "missing.xml"): "no such file",
		dir:                               "is a directory",
		"/dev/zero":                       "unknown format",
	}
	for name, content := range map[string][2]string{
		"empty.json":    {"", "empty"},
		"blank.folded":  {"\n\n", "empty"},
		"binary.pb.gz":  {"\xff\xfe\x00\x01", "unknown format"},
		"gzip.pb.gz":    {"\x1f\x8b\x08\x00", "gzip"},
		"zstd.xml.zst":  {"\x28\xb5\x2f\xfd\xff\xff", "zstd"},
		"text.folded":   {"this is no profile\n", "whole number"},
		"other.json":    {`{"a": [1, 2]}`, "version"},
		"other.xml":     {`<html><body/></html>`, "html"},
		"cut.json":      {`{"ccmap_version":1,"methods":[{"name":"a"}`, "EOF"},
		"newer.json":    {`{"ccmap_version":99}`, "newer"},
		"parent.json":   {`{"ccmap_version":1,"methods":[{"name":"a"}],"nodes":[{"parent":7,"method":0}]}`, "parent 7"},
		"negative.json": {`{"ccmap_version":1,"methods":[{"name":"a"}],"nodes":[{"parent":0,"method":0,"samples":-1}]}`, "negative"},
		"proto.pb":      {"\x0a\x02\x08\x01\x12\xff\xff\xff\xff\x7f", "pprof"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content[0]), 0o666); err != nil {
			t.Fatal(err)
		}
		files[path] = content[1]
	}
	out := filepath.Join(dir, "out.xml")
	for file, want := range files {
		for _, line := range readers {
			code, stdout, stderr := runWith(commandLine(line, file, out), nil)
			if code != exitFailed || stdout != "" || !strings.HasPrefix(stderr, "ccmapd: ") ||
				!strings.Contains(stderr, file) || !strings.Contains(stderr, want) {
				t.Errorf("ccmapd %s of %s: exit code %d, stdout %q, stderr %q, want the file and %q",
					line, file, code, stdout, stderr, want)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a command that failed wrote its output")
	}
}

// TestCutFiles: a file that ends anywhere is an error or, where lines stand for
// themselves, a smaller profile. It never panics. Package export cuts XML and JSON at each byte.
func TestCutFiles(t *testing.T) {
	t.Parallel()
	for ext, file := range writeFiles(t, t.TempDir()) {
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(whole); n += 7 {
			code, _, stderr := runWith([]string{"top", "-"}, whole[:n])
			if code != exitOK && (code != exitFailed || !strings.HasPrefix(stderr, "ccmapd: standard input: ")) {
				t.Errorf("%s cut at %d of %d bytes: exit code %d, stderr %q", ext, n, len(whole), code, stderr)
			}
		}
	}
}

func TestHostileOutputs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFiles(t, dir)["json"]
	occupied := filepath.Join(dir, "dir.xml")
	if err := os.Mkdir(occupied, 0o777); err != nil {
		t.Fatal(err)
	}
	for out, want := range map[string]string{
		filepath.Join(dir, "missing", "out.xml"): "Make the directory first",
		filepath.Join(file, "out.xml"):           "not a directory",
		occupied:                                 "A directory has that name",
		filepath.Join(dir, "out.txt"):            "unknown format by its name",
		filepath.Join(dir, "out"):                "unknown format by its name",
		"-":                                      "say --to",
		"/dev/stdout":                            "say --to",
		os.DevNull:                               "say --to",
		filepath.Join(dir, "out.json") + " --to=": "must be " + terminal.OrList(export.Formats()),
	} {
		for _, line := range []string{"convert FILE OUT", "merge FILE -o OUT"} {
			args := strings.Fields(strings.NewReplacer("FILE", file, "OUT", out).Replace(line))
			code, stdout, stderr := runWith(args, nil)
			if code == exitOK || stdout != "" || !strings.Contains(stderr, want) {
				t.Errorf("ccmapd %s to %s: exit code %d, stdout %q, stderr %q, want %q", line, out, code, stdout, stderr, want)
			}
		}
	}
}

// TestStreams: what is a pipe or device stays one, and gets the profile.
func TestStreams(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFiles(t, dir)["json"]
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"convert FILE OUT --to json", "merge FILE -o OUT --to json", "attach 42 -o OUT --to json", "attach 42 -o OUT.json"} {
		pipe := filepath.Join(t.TempDir(), "pipe")
		args := strings.Fields(strings.NewReplacer("FILE", file, "OUT", pipe).Replace(line))
		if strings.HasSuffix(line, ".json") {
			pipe += ".json"
		}
		if err := unix.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		got := make(chan []byte, 1)
		go func() {
			text, _ := os.ReadFile(pipe)
			got <- text
		}()
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, args...)
		if text := <-got; r.code != exitOK || !bytes.HasPrefix(text, want[:20]) {
			t.Errorf("ccmapd %s: exit code %d, %s, read from the pipe: %.40q", line, r.code, r.stderr, text)
		}
		if strings.Contains(r.stdout, "ccmapd top") {
			t.Errorf("ccmapd %s: a command reads the pipe again: %s", line, r.stdout)
		}
	}
	for _, line := range []string{"convert FILE /dev/null --to xml", "attach 42 -o /dev/null"} {
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, commandLine(line, file, "")...)
		if info, err := os.Stat(os.DevNull); r.code != exitOK || err != nil || info.Mode()&os.ModeCharDevice == 0 {
			t.Errorf("ccmapd %s: exit code %d, %s, /dev/null is %v", line, r.code, r.stderr, info.Mode())
		}
	}
}

// TestDescriptors: a profile goes to the descriptor that a name leads to, whatever that
// is open to.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := writeFiles(t, dir)["json"]
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	to := func(target, name string) string {
		if err := errors.Join(os.MkdirAll(link, 0o700), os.Symlink(target, filepath.Join(link, name))); err != nil {
			t.Fatal(err)
		}
		return filepath.Join(link, name)
	}
	for out, fd := range map[string]int{
		"/dev/stdout": 1, to("/dev/stdout", "out"): 1, to("/dev/fd/1", "one"): 1, to("out", "again"): 1,
		"/dev/stderr": 2, to("/dev/stderr", "err"): 2, "/dev/fd/2": 2,
		"/dev/fd/3": 3, to("/dev/fd/3", "three"): 3, "/proc/self/fd/3": 3, to("/dev/fd/3", "three.json"): 3,
	} {
		for _, line := range []string{"convert FILE OUT", "merge FILE -o OUT", "attach 42 -q -o OUT"} {
			if !strings.HasSuffix(out, ".json") {
				line += " --to json"
			}
			name := "ccmapd"
			if strings.HasPrefix(line, "attach") {
				name = fakeName
			}
			got, err := os.Create(filepath.Join(t.TempDir(), "got"))
			if err != nil {
				t.Fatal(err)
			}
			defer got.Close()
			var said bytes.Buffer
			cmd := exec.Command(name, commandLine(line, file, out)...)
			cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = &said, &said, make([]*os.File, 1)
			switch fd {
			case 1:
				cmd.Stdout = got
			case 2:
				cmd.Stderr = got
			case 3:
				cmd.ExtraFiles[0] = got
			}
			err = cmd.Run()
			text, readErr := os.ReadFile(got.Name())
			if err != nil || readErr != nil || !bytes.Contains(text, want[:20]) {
				t.Errorf("ccmapd %s to %s: %v, %v, descriptor %d got %.60q; %s", line, out, err, readErr, fd, text, &said)
			}
		}
	}
	for _, line := range []string{"convert FILE OUT --to json", "merge FILE -o OUT --to json", "attach 42 -o OUT"} {
		const unused = "/dev/fd/987654"
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, commandLine(line, file, unused)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, "started without a descriptor 987654") {
			t.Errorf("ccmapd %s to %s: exit code %d, %s", line, unused, r.code, r.stderr)
		}
	}
}

// TestControlCharacters: a name in a file does not reach the terminal as a
// command to it, nor as a line of its own.
func TestControlCharacters(t *testing.T) {
	t.Parallel()
	for _, content := range []string{
		`main.\x1b[2Jf+1;main.\x0axf\xff+2 50`,
		`{"ccmap_version":1,"meta":{"target":{"executable":"\u001b[2J"}},
		"methods":[{"name":"main.\u001b[2Jf\nxf","file":"\u001b"}],"nodes":[{"parent":0,"method":0,"samples":50}]}`,
	} {
		for _, args := range [][]string{
			{"top", "-"}, {"sites", "-"}, {"contexts", "-", "--match", "f"}, {"query", "-", "--match", "f"}, {"top", "-", "main.ff"},
		} {
			_, stdout, stderr := runWith(args, []byte(content))
			if strings.ContainsAny(stdout+stderr, "\x1b") || strings.Contains(stdout, "\nxf") {
				t.Errorf("ccmapd %q: stdout %q, stderr %q", args, stdout, stderr)
			}
		}
	}
}

func TestFullDevice(t *testing.T) {
	t.Parallel()
	file := writeFiles(t, t.TempDir())["json"]
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	lines := append([]string{"convert FILE - --to=xml", "merge FILE -o - --to=pprof", "top FILE --json"}, questions("FILE")...)
	for _, line := range lines {
		var stderr bytes.Buffer
		code := run(commandLine(line, file, ""), nil, full, &stderr)
		if code != exitFailed || !strings.Contains(stderr.String(), "no space left on device") {
			t.Errorf("ccmapd %s > /dev/full: exit code %d, stderr %q", line, code, &stderr)
		}
	}
}

// TestExplain: an error says what helps, and the flag for memory only where it does.
func TestExplain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		code int
		hint string
	}{
		{explainRead(&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}), exitPermission, "owner"},
		{explainRead(fmt.Errorf("x: %w", export.ErrTooLarge)), exitFailed, "--max-read-memory"},
		{explainRead(fmt.Errorf("x: %w", export.ErrTooDeep)), exitFailed, "take the profile again"},
		{explainRead(fmt.Errorf("x: %w", export.ErrTooMany)), exitFailed, "take the profile again"},
		{output.Explain(&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}), exitPermission, "may write"},
		{output.Explain(fmt.Errorf("write x: %w", syscall.EROFS)), exitPermission, "may write"},
		{output.Explain(fmt.Errorf("write x: %w", syscall.ENOSPC)), exitFailed, "full"},
	} {
		var stderr bytes.Buffer
		reportError(&stderr, nil, test.err)
		if code := exitCode(test.err); code != test.code || !strings.Contains(stderr.String(), test.hint) {
			t.Errorf("%v: exit code %d and %q, want %d and %q", test.err, code, &stderr, test.code, test.hint)
		}
	}
	if err := explainRead(nil); err != nil {
		t.Errorf("no error explained: %v", err)
	}
}
