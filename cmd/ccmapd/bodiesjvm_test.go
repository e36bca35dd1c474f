package main

import (
	"path/filepath"
	"strconv"
	"testing"

	"github.com/ccmapd/ccmapd/export"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// TestBodiesOfJVMs: sampled methods of a JVM have a body, the same by each engine, from each JDK, and in each run.
func TestBodiesOfJVMs(t *testing.T) {
	t.Parallel()
	needEngine(t)
	seen := make(map[string]uint64)
	for _, jdk := range jvmtest.JDKs(t) {
		jvm := jdk.Start(t, nil, "Shapes")
		for _, engine := range []string{"bpf", "perf"} {
			file := filepath.Join(jvm.Dir, engine+".json")
			ccmapdOK(t, "attach", strconv.Itoa(jvm.PID), "--engine", engine, "-i", "1ms", "--tune=false", "-d", "2s", "-o", file)
			m, _, err := export.ReadFile(file, export.ReadOptions{})
			if err != nil {
				t.Fatal(err)
			}
			for method := range m.Snapshot().Methods() {
				m := method.Method()
				if m.Name != "Shapes.steps" && m.Name != "Shapes.call" && m.Name != "Shapes.circles" {
					continue
				}
				if before, known := seen[m.Name]; m.Body == 0 || known && before != m.Body {
					t.Errorf("JDK %s, engine %s: %s has the body %#x, and had %#x", jdk.Name, engine, m.Name, m.Body, before)
				}
				seen[m.Name] = m.Body
			}
		}
	}
	if len(seen) != 3 {
		t.Errorf("methods with a body: %v", seen)
	}
}
