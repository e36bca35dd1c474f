package main

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ccmapd/ccmapd/ccmap"
	"github.com/ccmapd/ccmapd/export"
)

// handles is a program with a call that handlesProfile has.
const handles = `package main

//go:noinline
func round(x int) int { return x*3 + 1 }

//go:noinline
func handle(n int) (x int) {
	for range n {
		x = round(x)
	}
	return x
}

func main() { println(handle(3)) }
`

// handlesProfile is a profile of the program.
func handlesProfile(unit ccmap.Unit, startLine int32) *ccmap.Snapshot {
	m := ccmap.New(ccmap.Options{})
	node, offset := m.Root(), ccmap.NoOffset
	for _, name := range []string{"main.main", "main.handle", "main.round"} {
		node = m.Child(node, offset, m.Names().Intern(ccmap.Method{Name: name, File: "/src/main.go", StartLine: startLine}))
		offset = 2
	}
	m.Add(node, ccmap.Counters{Samples: 9, Time: 9e7})
	m.Meta().Unit, m.Meta().Target.Runtime = unit, "go1.25.1"
	return m.Snapshot()
}

// badPGOInputs writes profiles and programs, and returns their paths by the words that stand for them in command lines.
func badPGOInputs(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	paths := map[string]string{"OUT": filepath.Join(dir, "out.pgo"), "DIR": dir, "MISSING": filepath.Join(dir, "missing")}
	write := func(word string, data []byte) {
		paths[word] = filepath.Join(dir, strings.ToLower(word))
		if err := os.WriteFile(paths[word], data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for word, s := range map[string]*ccmap.Snapshot{
		"FITTING": handlesProfile(ccmap.CPUTime, 7), "LINELESS": handlesProfile(ccmap.CPUTime, 0),
		"ALLOCATIONS": handlesProfile(ccmap.NewUnit("alloc_space", "bytes"), 7), "WAITS": handlesProfile(ccmap.NewUnit("delay", "nanoseconds"), 7),
	} {
		paths[word] = filepath.Join(dir, strings.ToLower(word)+".pb.gz")
		if err := export.WriteFile(paths[word], s); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(paths["FITTING"])
	if err != nil {
		t.Fatal(err)
	}
	write("CUT", whole[:len(whole)/2])
	write("GARBAGE", []byte("\x0a\xff\xff\xff\xff\x0f garbage"))
	for word, source := range map[string]string{"PROGRAM": handles, "OTHER": "package main\n\nfunc other() { println() }\n\nfunc main() { other() }\n"} {
		source, program := filepath.Join(dir, strings.ToLower(word)+".go"), []byte(source)
		paths[word] = filepath.Join(dir, strings.ToLower(word))
		if err := os.WriteFile(source, program, 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("go", "build", "-o", paths[word], source).CombinedOutput(); err != nil {
			t.Fatalf("build %s: %v: %s", word, err, out)
		}
	}
	program, err := os.ReadFile(paths["PROGRAM"])
	if err != nil {
		t.Fatal(err)
	}
	magic := []byte("\xf1\xff\xff\xff\x00\x00\x01\x08") // of the table of functions, Go 1.20 to 1.27
	write("TABLELESS", bytes.ReplaceAll(program, magic, make([]byte, len(magic))))
	write("GO116", bytes.ReplaceAll(program, magic, []byte("\xfa\xff\xff\xff\x00\x00\x01\x08")))
	write("FUTURE", bytes.ReplaceAll(program, magic, []byte("\xf2\xff\xff\xff\x00\x00\x01\x08")))
	write("HALF", program[:len(program)/3])
	arm := bytes.Clone(program)
	arm[18] = 0xb7 // e_machine: EM_AARCH64
	write("ARM64", arm)
	return paths
}

// TestPGORefusesBadInput: what is no profile for Go's compiler, and no program of it, is an error that says what it is.
// Nothing is guessed: neither figures nor files are there.
func TestPGORefusesBadInput(t *testing.T) {
	t.Parallel()
	paths := badPGOInputs(t)
	var words []string
	for word, path := range paths {
		words = append(words, word, path)
	}
	replace := strings.NewReplacer(words...)
	profiles := map[string]string{
		"LINELESS": "no sample has a Go function whose start line is known", "ALLOCATIONS": `measures "alloc_space/bytes"`, "WAITS": `measures "delay/nanoseconds"`,
		"CUT": "unexpected EOF", "GARBAGE": "garbage", "MISSING": "no such file", "PROGRAM": "program",
	}
	programs := map[string]string{
		"OTHER": "the profile is of another program", "TABLELESS": "unknown magic 0x0", "GO116": "need Go 1.18 or later", "FUTURE": "unknown magic",
		"HALF": "not a Go program", "ARM64": "EM_AARCH64", "FITTING": "not a Go program", "MISSING": "no such file",
	}
	wants := make(map[string]string)
	for word, want := range profiles {
		for _, line := range []string{"pgo export WORD OUT", "pgo export WORD OUT --minimal", "pgo check WORD PROGRAM", "pgo check WORD DIR --heal OUT", "pgo report WORD PROGRAM PROGRAM"} {
			wants[strings.Replace(line, "WORD", word, 1)] = want
		}
	}
	for word, want := range programs {
		for _, line := range []string{"pgo check FITTING WORD --heal OUT", "pgo report FITTING WORD PROGRAM", "pgo report FITTING PROGRAM WORD"} {
			wants[strings.Replace(line, "WORD", word, 1)] = want
		}
	}
	wants["pgo report FITTING DIR PROGRAM"] = "not a regular file"
	wants["pgo report FITTING PROGRAM PROGRAM --diagnostics PROGRAM"] = "no words of the compiler"
	for line, want := range wants {
		args := strings.Fields(line)
		for i := range args {
			args[i] = replace.Replace(args[i])
		}
		code, stdout, stderr := runWith(args, nil)
		if code == exitOK || !strings.Contains(stderr, want) || stdout != "" {
			t.Errorf("%s: exit code %d, %q, %q, want %q", line, code, stderr, stdout, want)
		}
		if _, err := os.Stat(paths["OUT"]); err == nil {
			t.Fatalf("%s writes a file", line)
		}
	}
}

// TestPGOSaysOtherVersion: code differs by the compiler alone, and the commands say that it may.
func TestPGOSaysOtherVersion(t *testing.T) {
	t.Parallel()
	paths := badPGOInputs(t)
	code, stdout, stderr := runWith([]string{"pgo", "check", paths["FITTING"], paths["PROGRAM"]}, nil)
	if code != exitOK || !strings.Contains(stdout, "the profile is of go1.25.1: code can differ by the compiler alone") {
		t.Errorf("check: exit code %d, %s%s", code, stdout, stderr)
	}
}

// TestMeasureRefusesBadInput: what cannot be measured is an error that says why.
func TestMeasureRefusesBadInput(t *testing.T) {
	t.Parallel()
	sleeps := exec.CommandContext(t.Context(), "sleep", "600")
	if err := sleeps.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { sleeps.Process.Kill(); sleeps.Wait() }()
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		for _, line := range []string{
			"# TYPE gauge gauge", "gauge 3", "# TYPE still_total counter", "still_total 7", "# TYPE back_total counter", fmt.Sprintf("back_total %d", 1000-n),
			"# TYPE nan_total counter", "nan_total NaN", "# TYPE word_total counter", "word_total many",
		} {
			if r.URL.Path == "/page" {
				line = "<p>" + line
			}
			fmt.Fprintln(w, line)
		}
		if r.URL.Path == "/long" {
			fmt.Fprint(w, "still_total "+strings.Repeat("1", 2<<20))
		}
	}))
	defer server.Close()
	self, other := strconv.Itoa(os.Getpid()), strconv.Itoa(sleeps.Process.Pid)
	for _, c := range []struct{ pid, unit, path, want string }{
		{self, "--per-metric=gauge", "/metrics", "gauge"},
		{self, "--per-metric=missing_total", "/metrics", "the page has no such counter"},
		{self, "--per-metric=still_total", "/page", "the page has no such counter"},
		{self, "--per-metric=still_total", "/long", "token too long"},
		{self, "--per-metric=nan_total", "/metrics", "NaN"},
		{self, "--per-metric=word_total", "/metrics", "many"},
		{self, "--per-metric=back_total", "/metrics", "went back"},
		{self, "--per-metric=still_total", "/metrics", "no unit of work was counted"},
		{other, "--per=main.handle", "", "not a Go program"},
		{"4194304", "--per=main.handle", "", "4194304"}, // above the largest id
	} {
		args := []string{"pgo", "measure", "--before", c.pid, "--after", c.pid, c.unit, "-d", "80ms", "--period", "10ms"}
		if c.path != "" {
			args = append(args, "--before-url", server.URL+c.path, "--after-url", server.URL+c.path)
		}
		code, stdout, stderr := runWith(args, nil)
		if code == exitOK || !strings.Contains(stderr, c.want) || stdout != "" {
			t.Errorf("%s of %s: exit code %d, %q, %q, want %q", c.unit, c.path, code, stderr, stdout, c.want)
		}
	}
}

// TestMeasureSaysOtherProgram: a process that executes another program is measured no longer. It does so while its
// metrics are read.
func TestMeasureSaysOtherProgram(t *testing.T) {
	t.Parallel()
	changes := exec.CommandContext(t.Context(), "sh", "-c", "read line; exec sleep 600")
	tell, err := changes.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := changes.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { changes.Process.Kill(); changes.Wait() }()
	comm := fmt.Sprintf("/proc/%d/comm", changes.Process.Pid)
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		if n == 5 {
			tell.Close()
			for name := ""; name != "sleep\n"; runtime.Gosched() {
				now, err := os.ReadFile(comm)
				if name = string(now); err != nil {
					t.Error(err)
					break
				}
			}
		}
		fmt.Fprintf(w, "# TYPE units_total counter\nunits_total %d\n", n)
	}))
	defer server.Close()
	pid, self := strconv.Itoa(changes.Process.Pid), strconv.Itoa(os.Getpid())
	code, stdout, stderr := runWith([]string{
		"pgo", "measure", "--before", pid, "--after", self, "--per-metric", "units_total", "-d", "1h", "--period", "10ms",
		"--before-url", server.URL, "--after-url", server.URL,
	}, nil)
	if want := fmt.Sprintf("measure --before: process %s runs another program now", pid); code == exitOK || !strings.Contains(stderr, want) || stdout != "" {
		t.Errorf("exit code %d, %q, %q, want %q", code, stderr, stdout, want)
	}
}
