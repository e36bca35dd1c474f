package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ccmapd/ccmapd/internal/recording"
	"github.com/ccmapd/ccmapd/sampler/engine"
)

// hotLine is an event of --on-hot json.
type hotLine struct {
	Seq        int
	Kind, Text string
	PID        int
	Data       recording.Hot
}

// TestOnHot: methods, edges and paths that become hot are told as text, as JSON, and into a file.
func TestOnHot(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "hot.json")
	if err := os.WriteFile(file, []byte("of before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	hot := []string{"--hot-method", "250ms", "--hot-edge", "150ms", "--hot-path", "main.main > work = 200ms"}
	attach := func(on string) result {
		args := append([]string{"attach", "1", "-q", "-o", filepath.Join(t.TempDir(), "a.json"), "--on-hot", on}, hot...)
		r := runEngines(t, []engine.Engine{fakeEngine(false)}, args...)
		if r.code != 0 {
			t.Fatalf("--on-hot %s: %+v", on, r)
		}
		return r
	}
	text := attach("text").stderr
	for _, want := range []string{
		"  hot (1): main.main has reached 300ms of CPU time\n",
		"  hot (1): main.main+1 > main.work has reached 200ms of CPU time\n",
		"  hot (1): main.main > work has reached 200ms of CPU time\n",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("text %q lacks %q", text, want)
		}
	}
	shown := attach("json").stderr
	if r := attach("json:" + file); r.stderr != "" {
		t.Errorf("beside a file: %q", r.stderr)
	}
	filed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, lines := range []string{shown, string(filed)} {
		kinds := make(map[string]string)
		for i, line := range strings.Split(strings.TrimSuffix(lines, "\n"), "\n") {
			var e hotLine
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != i+1 || e.Kind != "hot" || e.PID != 1 {
				t.Errorf("line %q: %+v, %v", line, e, err)
			}
			kinds[e.Data.Kind] = e.Data.Threshold
		}
		if kinds["method"] != "250ms" || kinds["edge"] != "150ms" || kinds["path"] != "200ms" || len(kinds) != 3 {
			t.Errorf("kinds %v in\n%s", kinds, lines)
		}
	}
}
