package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// countedCall is a call through an interface in Go's own library, which a server
// is built to count.
type countedCall struct {
	method   string // that it is in
	file     string // of the method, below GOROOT/src
	source   string // the line of the call
	receiver string // the interface, as the line has it
}

// countedCalls are what fortio's server does for every request. Of two writers
// that Flush calls, one ends in the kernel and the other in a buffer: they share
// calls and time unlike. The connections are types that promote their methods. The
// lines are those of Go 1.26.
var countedCalls = []countedCall{
	{"bufio.(*Writer).Flush", "bufio/bufio.go", "n, err := b.wr.Write(b.buf[0:b.n])", "b.wr"},
	{"bufio.(*Reader).fill", "bufio/bufio.go", "n, err := b.rd.Read(b.buf[b.w:])", "b.rd"},
	{"net/http.(*connReader).Read", "net/http/server.go", "n, err = cr.rwc.Read(p)", "cr.rwc"},
	{"net/http.checkConnErrorWriter.Write", "net/http/server.go", "n, err = w.c.rwc.Write(p)", "w.c.rwc"},
}

// patch returns a source file in which a line before the call counts it.
func (c countedCall) patch(t *testing.T, text string) string {
	t.Helper()
	count := fmt.Sprintf("CountReceiver(%q, %s)", c.method, c.receiver)
	if !strings.HasPrefix(c.file, "bufio/") {
		count = "bufio." + count
	}
	if strings.Count(text, c.source+"\n") != 1 {
		t.Fatalf("%s of this Go does not have %q once: adapt countedCalls", c.file, c.source)
	}
	return strings.Replace(text, c.source+"\n", count+"\n"+c.source+"\n", 1)
}

// line returns the line of the call in a source file.
func (c countedCall) line(text string) int32 {
	before, _, _ := strings.Cut(text, c.source)
	return int32(strings.Count(before, "\n")) + 1
}

// countingServer is fortio, built so that it counts the dynamic types at some
// calls of Go's library, and where these stand in it.
type countingServer struct {
	binary, socket string
	calls          map[string]call // by method
}

func buildCountingServer(t *testing.T) countingServer {
	t.Helper()
	dir := t.TempDir()
	server := countingServer{socket: filepath.Join(dir, "receivers"), calls: make(map[string]call)}
	sources := make(map[string]string)
	for _, c := range countedCalls {
		if sources[c.file] == "" {
			text, err := os.ReadFile(filepath.Join(goRoot(t), "src", c.file))
			if err != nil {
				t.Fatal(err)
			}
			sources[c.file] = string(text)
		}
		sources[c.file] = c.patch(t, sources[c.file])
	}
	for _, c := range countedCalls {
		server.calls[c.method] = call{c.method, c.line(sources[c.file])}
	}
	server.binary = install(t, fortio, "-overlay="+writeOverlay(t, dir, sources))
	return server
}

// writeOverlay writes patched files of Go's library, and what lets the server tell
// what it has counted, as an overlay for the go command.
func writeOverlay(t *testing.T, dir string, sources map[string]string) (file string) {
	t.Helper()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	library := filepath.Join(goRoot(t), "src")
	replace := map[string]string{
		filepath.Join(library, "bufio/receivers.go"):    filepath.Join(here, "testdata/counted/bufio/receivers.go"),
		filepath.Join(library, "net/http/receivers.go"): filepath.Join(here, "testdata/counted/http/receivers.go"),
	}
	for name, text := range sources {
		patched := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(patched, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(library, name)] = patched
	}
	overlay, err := json.Marshal(struct{ Replace map[string]string }{replace})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func goRoot(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// counts asks a running server for all that it has counted, by method and dynamic
// type.
func (s countingServer) counts(t *testing.T) (counts map[string]mix) {
	t.Helper()
	c, err := net.Dial("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := json.NewDecoder(c).Decode(&counts); err != nil {
		t.Fatal(err)
	}
	return counts
}
