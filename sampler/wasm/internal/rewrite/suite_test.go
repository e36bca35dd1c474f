package rewrite_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/ccmapd/ccmapd/internal/testrun"
	"github.com/ccmapd/ccmapd/sampler/wasm/internal/rewrite"
)

func TestMain(m *testing.M) { os.Exit(testrun.Guard(m).Run()) }

// A script is a file of the suite: commands in order.
type script struct {
	dir      string
	Commands []command `json:"commands"`
}

type command struct {
	Type       string `json:"type"`
	Line       int    `json:"line"`
	Name       string `json:"name"`
	As         string `json:"as"`
	Filename   string `json:"filename"`
	ModuleType string `json:"module_type"`
	Action     action `json:"action"`
}

type action struct {
	Type   string  `json:"type"`
	Module string  `json:"module"`
	Field  string  `json:"field"`
	Args   []value `json:"args"`
}

type value struct {
	Type     string `json:"type"`
	LaneType string `json:"lane_type"`
	Value    any    `json:"value"`
}

// wazeroSources is the module cache's directory of wazero's sources. Hundreds of tests ask for it.
var wazeroSources = sync.OnceValues(func() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/tetratelabs/wazero").Output()
	return strings.TrimSpace(string(out)), err
})

func wazeroDir(tb testing.TB) string {
	tb.Helper()
	dir, err := wazeroSources()
	if err != nil {
		tb.Fatalf("find wazero's module: %v", err)
	}
	return dir
}

// suiteDir is a directory of test scripts.
func suiteDir(tb testing.TB, name string) string {
	return filepath.Join(wazeroDir(tb), "internal", "integration_test", "spectest", name, "testdata")
}

// scriptFiles are the scripts of a directory. There must be some.
func scriptFiles(tb testing.TB, dir string) []string {
	tb.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil || len(files) == 0 {
		tb.Fatalf("no test scripts in %s: %v", dir, err)
	}
	return files
}

func readScript(tb testing.TB, file string) script {
	tb.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	s := script{dir: filepath.Dir(file)}
	if err := json.Unmarshal(data, &s); err != nil {
		tb.Fatal(err)
	}
	return s
}

// module reads the binary of a command.
func (s script) module(tb testing.TB, c command) []byte {
	tb.Helper()
	data, err := os.ReadFile(filepath.Join(s.dir, c.Filename))
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// arguments returns an action's arguments for wazero.
func (a action) arguments(tb testing.TB) (args []uint64) {
	for _, v := range a.Args {
		if v.Type == "v128" {
			lo, hi := v.lanes(tb)
			args = append(args, lo, hi)
			continue
		}
		s, _ := v.Value.(string)
		args = append(args, v.scalar(tb, s))
	}
	return args
}

func (v value) scalar(tb testing.TB, s string) uint64 {
	if s == "null" || s == "" {
		return 0
	}
	n := bits(tb, s, strings.Contains(v.Type, "32"))
	if v.Type == "externref" {
		n++ // 0 is wazero's null
	}
	return n
}

// lanes packs the lanes of a vector, the first into the lowest bits.
func (v value) lanes(tb testing.TB) (lo, hi uint64) {
	lanes := v.Value.([]any)
	width := 128 / len(lanes)
	for i, lane := range lanes {
		n := bits(tb, lane.(string), width == 32) & (1<<width - 1)
		if at := i * width; at < 64 {
			lo |= n << at
		} else {
			hi |= n << (at - 64)
		}
	}
	return lo, hi
}

func bits(tb testing.TB, s string, narrow bool) uint64 {
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		return n
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		tb.Fatalf("parse argument %q: %v", s, err)
	}
	if narrow {
		return uint64(uint32(n))
	}
	return uint64(n)
}

// goGuest builds a Go program for wasip1: real code, 3 MB of it.
func goGuest(tb testing.TB) []byte {
	tb.Helper()
	dir := tb.TempDir()
	source := `package main; import "encoding/json"; func main() { b, _ := json.Marshal(map[string]int{"a": 1}); println(string(b)) }`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		tb.Fatal(err)
	}
	guest := filepath.Join(dir, "guest.wasm")
	build := exec.Command("go", "build", "-o", guest, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build guest: %v\n%s", err, out)
	}
	data, err := os.ReadFile(guest)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

func BenchmarkRewrite(b *testing.B) {
	guest, lines := goGuest(b), dwarfModule(b, "tinygo")
	for _, c := range []struct {
		name    string
		guest   []byte
		options rewrite.Options
	}{
		{"guest=go/marks=false", guest, rewrite.Options{MultiValue: true}},
		{"guest=go/marks=true", guest, rewrite.Options{MultiValue: true, Marks: true, Calls: true}},
		{"guest=go/tails=true", guest, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true, Calls: true}},
		{"guest=go/exact=true", guest, rewrite.Options{MultiValue: true, Marks: true, Exact: true}},
		{"guest=tinygo/lines=true", lines, rewrite.Options{MultiValue: true, TailCalls: true, Marks: true, Calls: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			guest := c.guest
			b.SetBytes(int64(len(guest)))
			b.ReportAllocs()
			size := 0
			for b.Loop() {
				m, err := rewrite.Rewrite(guest, c.options)
				if err != nil {
					b.Fatal(err)
				}
				size = len(m.Binary)
			}
			b.ReportMetric(float64(size)/float64(len(guest)), "size-ratio")
		})
	}
}
