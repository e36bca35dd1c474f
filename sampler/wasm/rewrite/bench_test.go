package rewrite_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/ccmapd/ccmapd/sampler/wasm/rewrite"
)

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
