package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/terminal"
	"github.com/ccmapd/ccmapd/internal/view"
	"github.com/ccmapd/ccmapd/sampler"
	"github.com/ccmapd/ccmapd/sampler/engine"
	"github.com/ccmapd/ccmapd/testdata/guests"
)

// forged would be a message of ours if a name could begin a line.
const forged = "ccmapd: forged"

// hostileText holds all that a terminal could obey, and a line that is forged. Without
// NUL and slash it is the name of a file.
var hostileText = func() string {
	var b strings.Builder
	b.WriteString("Übersetze漢字\n" + forged + "\n")
	for c := 1; c < ' '; c++ {
		b.WriteByte(byte(c))
	}
	b.WriteByte(0x7f)
	for c := rune(0x80); c < 0xa0; c++ {
		b.WriteRune(c)
		b.WriteByte(byte(c)) // C1 in Latin-1, which is not UTF-8
	}
	b.WriteString("\x1b[2J\x1b]0;title\a\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029\ufeff\U000e0041")
	return b.String()
}()

// checkText fails if a terminal would obey a text, or if a name begins a line in it.
func checkText(t *testing.T, what, text string) {
	t.Helper()
	for i, r := range text {
		if r == utf8.RuneError && !strings.HasPrefix(text[i:], "\uFFFD") || !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			t.Errorf("%s has %q at byte %d: %.200q", what, r, i, text[max(0, i-100):])
			return
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, forged) {
			t.Errorf("%s has a line that is forged: %q", what, line)
		}
	}
}

// hostileMap has hostile text in every string that a profile holds. JSON takes it
// whole, as the other formats do not.
func hostileMap() *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	frames := make([]ccmap.Frame, 3)
	for i := range frames {
		frames[i].Method = m.Names().Intern(ccmap.Method{
			Name: fmt.Sprintf("main.f%d%s", i, hostileText), Signature: hostileText, File: hostileText + ".go", Receiver: hostileText, StartLine: 7,
		})
		frames[i].Offset = uint32(i)
	}
	for range 200 {
		m.Fold(&ccmap.Sample{Frames: frames, Weight: 1e7, Fresh: ccmap.FreshUnknown})
	}
	meta := m.Meta()
	meta.Engine, meta.Ended, meta.Target.Executable, meta.Target.Runtime, meta.Target.BuildID = hostileText, hostileText, hostileText, hostileText, hostileText
	meta.Target.CommandLine = []string{hostileText}
	meta.Comments = []string{hostileText, ccmap.CommentWarning + hostileText}
	meta.Target.PID = 42
	return m.Snapshot()
}

// hostileEngine samples a target whose names are hostile, and logs them.
var hostileEngine = engine.Engine{Name: "fake", Open: func(_ context.Context, a sampler.ProcessOptions) (engine.Source, error) {
	a.Logger.Warn(hostileText, "name", hostileText, hostileText, errors.New(hostileText))
	return &hostileSource{fakeSource{ProcessOptions: a}}, nil
}}

type hostileSource struct{ fakeSource }

func (s *hostileSource) Info() sampler.Info {
	info := s.fakeSource.Info()
	info.Target = ccmap.Target{PID: s.PID, Executable: "/usr/bin/" + hostileText, Runtime: hostileText, BuildID: hostileText}
	info.NoKernelTime = hostileText
	return info
}

func (s *hostileSource) Stats() sampler.Stats {
	stats := s.fakeSource.Stats()
	stats.NoCalls = hostileText
	return stats
}

// hostileArguments are the command lines of commands. PROFILE has hostile names and
// a hostile name itself, BROKEN is no profile, MODULE no module, PROGRAM cannot be run, and
// TEXT is hostile.
var hostileArguments = map[string][]string{
	"attach":        {"42 -o OUT.json", "42 -v --hits 100 --dump-values -o OUT.xml", "42 --json -o OUT.json", "42 -o -", "TEXT", "42 --TEXT", "42 -o TEXT", "--match TEXT"},
	"run":           {"PROGRAM", "MODULE", "--env TEXT MODULE", "--dir TEXT MODULE", "--anyway MODULE", "TEXT"},
	"demo":          {"TEXT"},
	"apply":         {"BROKEN 42", "TEXT 42", "PROFILE TEXT", "BROKEN 42 --json"},
	"hints":         {"PROFILE", "PROFILE --json", "PROFILE --format directives", "PROFILE --format compilecommand", "BROKEN", "TEXT"},
	"stuck":         {"4194304", "TEXT", "42 --longer TEXT", "42 --TEXT"},
	"doctor":        {"", "42", "42 --json", "TEXT"},
	"demo-workload": {"-\x1b\u202e"},
	"convert":       {"PROFILE OUT.json", "PROFILE - --to json", "PROFILE - --to xml", "PROFILE - --to folded", "BROKEN OUT.json", "PROFILE TEXT", "PROFILE OUT.json --coverage TEXT"},
	"merge":         {"PROFILE PROFILE -o OUT.json", "--keep-going PROFILE BROKEN -o OUT.json", "PROFILE -o TEXT", "PROFILE=TEXT -o OUT.json"},
	"html":          {"PROFILE -o OUT.html", "PROFILE PROFILE -o OUT.html", "BROKEN -o OUT.html", "PROFILE -o TEXT/TEXT", "TEXT -o OUT.html"},
	"store":         {"", "TEXT", "list --dir TEXT", "show TEXT", "export TEXT OUT.json", "delete --dir TEXT TEXT", "check --dir TEXT", "compact --dir TEXT"},
	"fanin":         {"PROFILE", "--wide PROFILE", "--json PROFILE", "PROFILE --match f0", "PROFILE f1 --shared PROFILE", "BROKEN", "TEXT", "PROFILE TEXT", "PROFILE --shared BROKEN", "store OUT.fi PROFILE", "store BROKEN PROFILE", "store OUT.fi PROFILE --json"},
	"fleet":         {"", "TEXT", "show TEXT", "targets --hub TEXT", "builds TEXT --hub https://127.0.0.1:1 --token-file TEXT"},
	"pgo": {"", "TEXT", "export PROFILE OUT.pgo", "export PROFILE OUT.pgo --minimal --json", "export PROFILE TEXT", "export BROKEN OUT.pgo --minimal", "export PROFILE OUT.pgo --minimal --verify TEXT",
		"check PROFILE TEXT", "check TEXT PROGRAM", "check PROFILE PROGRAM", "check BROKEN .", "check PROFILE . --format github", "check PROFILE . --json", "check PROFILE . --heal TEXT",
		"report PROFILE PROGRAM PROGRAM", "report PROFILE TEXT TEXT", "report BROKEN . .", "report PROFILE TEXT TEXT --diagnostics TEXT"},
	"ui":         {"BROKEN --no-open", "TEXT", "PROFILE --port TEXT", "@TEXT"},
	"page":       {"TEXT"},
	"mcp":        {"TEXT"},
	"version":    {"", "--json", "TEXT"},
	"completion": {"TEXT", "bash"},
	"help":       {"TEXT"},
}

// hostileQuestions are the command lines of questions that are not about all methods of a profile.
var hostileQuestions = map[view.Subject][]string{
	view.OfMethod: {"PROFILE --match f0", "--wide PROFILE --match f0", "--json PROFILE --match f0", "PROFILE TEXT", "BROKEN TEXT", "PROFILE main.f"},
	view.OfPath:   {"PROFILE --match f0", "--json PROFILE --match f0", "PROFILE TEXT", "PROFILE --match ["},
	view.OfTwo:    {"PROFILE PROFILE", "--json PROFILE PROFILE", "PROFILE BROKEN", "PROFILE TEXT"},
	view.OfMany:   {"PROFILE PROFILE", "--json PROFILE PROFILE", "PROFILE BROKEN", "PROFILE TEXT"},
}

// defaultArguments are those of commands that read one profile, and of new ones.
var defaultArguments = []string{"PROFILE", "--wide PROFILE", "--json PROFILE", "PROFILE TEXT", "BROKEN", "TEXT", "--TEXT PROFILE"}

// TestCommandsPrintNothingHostile runs every command on hostile names, in success and in
// failure.
func TestCommandsPrintNothingHostile(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), hostileText)
	profile, broken, module, program := filepath.Join(dir, hostileText[:100]+".json"), filepath.Join(dir, "broken.json"),
		filepath.Join(dir, "m\x1b.wasm"), filepath.Join(dir, "p\x1b")
	wasm := []byte(guests.Empty)
	imports := []byte{1, byte(len(hostileText[:100]))}
	imports = append(append(imports, hostileText[:100]...), 1, '\x1b', 0, 0)
	wasm = append(wasm, 1, 4, 1, 0x60, 0, 0) // a type: func()
	wasm = append(append(wasm, 2, byte(len(imports))), imports...)
	for _, err := range []error{
		os.Mkdir(dir, 0o700), export.WriteFile(profile, hostileMap()), os.WriteFile(broken, []byte(hostileText), 0o600),
		os.WriteFile(module, wasm, 0o600), os.WriteFile(program, []byte("#!"+hostileText), 0o700),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	replace := strings.NewReplacer("PROFILE", profile, "BROKEN", broken, "MODULE", module, "PROGRAM", program,
		"OUT", filepath.Join(dir, "out\x1b"), "TEXT", hostileText)
	for _, cmd := range newRoot(&environment{stdout: io.Discard, stderr: io.Discard, engines: engine.All()}).Commands() {
		for _, line := range hostileLines(cmd) {
			args := []string{cmd.Name()}
			for _, arg := range strings.Fields(line) {
				args = append(args, replace.Replace(arg))
			}
			r := runEngines(t, []engine.Engine{hostileEngine}, args...)
			what := "ccmapd " + cmd.Name() + " " + line
			checkText(t, "stderr of "+what, r.stderr)
			if !strings.HasSuffix(line, "-o -") { // else it is pprof
				checkText(t, "stdout of "+what, r.stdout)
			}
			if r.stdout+r.stderr == "" && !strings.Contains(line, "OUT") {
				t.Errorf("%s prints nothing", what)
			}
		}
	}
}

func hostileLines(cmd *cobra.Command) []string {
	question, _ := view.QuestionNamed(cmd.Name())
	for _, lines := range [][]string{hostileArguments[cmd.Name()], hostileQuestions[question.Subject]} {
		if lines != nil {
			return lines
		}
	}
	return defaultArguments
}

// execs replaces itself by another program once its standard input ends, after having
// worked a while.
const execs = `package main

import (
	"io"
	"os"
	"syscall"
	"time"
)

func main() {
	io.Copy(io.Discard, os.Stdin)
	for begin := time.Now(); time.Since(begin) < 200*time.Millisecond; {
	}
	panic(syscall.Exec(os.Args[1], os.Args[1:2], nil))
}
`

// TestTargetWithHostileName attaches to a program with such a name, which replaces itself by
// another one.
func TestTargetWithHostileName(t *testing.T) {
	t.Parallel()
	needEngine(t)
	dir := t.TempDir()
	source, plain := filepath.Join(dir, "main.go"), filepath.Join(dir, "plain")
	first, second := filepath.Join(dir, "first"+hostileText[20:]), filepath.Join(dir, "second"+hostileText[20:])
	if err := os.WriteFile(source, []byte(execs), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", plain, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := errors.Join(os.Link(plain, first), os.Link(plain, second)); err != nil {
		t.Fatal(err)
	}
	target := exec.Command(first, second)
	stdin, err := target.StdinPipe()
	if err == nil {
		err = target.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer target.Wait()
	defer target.Process.Kill()
	var stdout, stderr bytes.Buffer
	code := run([]string{"attach", fmt.Sprint(target.Process.Pid), "-v", "-i", "1ms", "-o", filepath.Join(dir, "a.json")},
		nil, &stdout, onFirstWrite{&stderr, func() { stdin.Close() }})
	if code != exitOK || !strings.Contains(stdout.String(), "Target replaced itself by ") || !strings.Contains(stderr.String(), "Sampling ") {
		t.Errorf("exit code %d: %s%s", code, &stdout, &stderr)
	}
	checkText(t, "stdout", stdout.String())
	checkText(t, "stderr", stderr.String())
}

// onFirstWrite calls do after each write. The first one announces a session.
type onFirstWrite struct {
	to *bytes.Buffer
	do func()
}

func (w onFirstWrite) Write(p []byte) (int, error) {
	defer w.do()
	return w.to.Write(p)
}

// TestGuestWithHostileNames traps in a function of such a name.
func TestGuestWithHostileNames(t *testing.T) {
	t.Parallel()
	name := strings.ToValidUTF8(hostileText, "")[:100]
	section := "\x04name\x01" + string([]byte{byte(len(name) + 3), 1, 0, byte(len(name))}) + name
	file := writeFile(t, "trap\x1b.wasm", guests.Trapping+"\x00"+string([]byte{byte(len(section))})+section)
	r := runCommand(t, "run", "-v", "-o", filepath.Join(t.TempDir(), "a.json"), file)
	if r.code != exitTrapped || !strings.Contains(r.stderr, "Übersetze漢字") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	checkText(t, "stdout", r.stdout)
	checkText(t, "stderr", r.stderr)
}

// TestJSONKeepsNames: what is escaped for a terminal is exact for a parser, but for
// bytes that are not UTF-8.
func TestJSONKeepsNames(t *testing.T) {
	t.Parallel()
	want := strings.ToValidUTF8(hostileText, "")
	var out bytes.Buffer
	if err := terminal.WriteJSON(&out, map[string]string{"name": want + "\U000e0041<&>"}); err != nil {
		t.Fatal(err)
	}
	checkText(t, "JSON", out.String())
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["name"] != want+"\U000e0041<&>" {
		t.Errorf("parsed %q, %v", got, err)
	}
	if !strings.Contains(out.String(), "Übersetze漢字") {
		t.Errorf("letters are escaped: %s", &out)
	}
}

// TestExportedTextKeepsNames: a profile on a terminal obeys the same rule, and is
// exact.
func TestExportedTextKeepsNames(t *testing.T) {
	t.Parallel()
	for _, format := range []export.Format{export.XML, export.JSON} {
		var out bytes.Buffer
		if err := export.Write(&out, format, hostileMap()); err != nil {
			t.Fatal(err)
		}
		checkText(t, format.String(), out.String())
		m, _, err := export.Read(&out, export.ReadOptions{})
		if err != nil || m.Meta().Target.Executable != hostileText {
			t.Errorf("%v: %v, read %q", format, err, m.Meta().Target.Executable)
		}
	}
}

// TestLogsArePrintable, whatever the handler quotes.
func TestLogsArePrintable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	f := newSamplingFlags(nil)
	f.verbose = true
	f.logger(terminal.Guarded(&out)).Info(hostileText, hostileText, hostileText, "e", errors.New(hostileText), "g", slog.GroupValue(slog.String(hostileText, "\x7f")))
	checkText(t, "the log", out.String())
}

func TestGuard(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := terminal.Guarded(&out)
	if terminal.Guarded(w) != w || terminal.Unguarded(w) != &out || terminal.Unguarded(&out) != &out {
		t.Error("a guard stands before a guard")
	}
	for i := range len("Ü漢\U0001f600\x1b\t\n\xff.") { // byte by byte
		if n, err := w.Write([]byte("Ü漢\U0001f600\x1b\t\n\xff.")[i : i+1]); n != 1 || err != nil {
			t.Errorf("wrote %d bytes, %v", n, err)
		}
	}
	if want := "Ü漢\U0001f600\uFFFD\t\n\uFFFD."; out.String() != want {
		t.Errorf("got %q, want %q", &out, want)
	}
}
