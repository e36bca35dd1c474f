package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// nullsSeen is the JSON of receivers --nulls, as far as the test needs it.
type nullsSeen struct {
	Nulls []struct {
		Method  string
		Calls   int64
		Most    *int64 `json:"nulls_most"`
		Passed  bool
		Callers []struct {
			Method       string
			Passes, Only bool
			Calls        int64
			Most         *int64 `json:"nulls_most"`
		}
	}
}

// TestNullsOfJVM compares what ccmapd says of a Java program's nulls with the program's own counts. The first compiler
// counts all calls. With -XX:TypeProfileLevel=222 the JVM also tells which calls have passed null.
func TestNullsOfJVM(t *testing.T) {
	needEngine(t)
	if testing.Short() {
		t.Skip("samples JVMs for seconds")
	}
	t.Parallel()
	for _, jdk := range jvmtest.JDKs(t) {
		for _, level := range []string{"", "-XX:TypeProfileLevel=222"} {
			t.Run(jdk.Name+level, func(t *testing.T) {
				t.Parallel()
				flags := []string{countsAll}
				if level != "" {
					flags = append(flags, level)
				}
				jvm := jdk.Start(t, flags, "Nulls")
				file := filepath.Join(t.TempDir(), "nulls.json")
				a := attachTo(t, fmt.Sprint(jvm.PID), "--tune=false", "-i", "2ms", "-o", file)
				waitForCPU(t, jvm.PID, 6*time.Second) // by then the counts have been read after all was compiled
				a.interrupt(t, file)
				jvm.Tell(t, "end")
				if !jvm.Out.Scan() {
					t.Fatal("the program does not tell its counts")
				}
				var truth nullsTruth
				if _, err := fmt.Sscan(jvm.Out.Text(), &truth.always.calls, &truth.always.nulls, &truth.seldom.calls, &truth.seldom.nulls, &truth.only.calls, &truth.only.nulls); err != nil {
					t.Fatal(err)
				}
				_, text, _ := runWith([]string{"receivers", "--nulls", file, "--match", "^Nulls"}, nil)
				t.Log(text)
				code, out, errs := runWith([]string{"receivers", "--nulls", "--json", "-n", "0", file, "--match", "^Nulls"}, nil)
				var seen nullsSeen
				if err := json.Unmarshal([]byte(out), &seen); err != nil || code != exitOK {
					t.Fatalf("receivers --nulls exits with %d: %v\n%s", code, err, errs)
				}
				truth.compare(t, seen, level != "")
			})
		}
	}
}

// nullsTruth is what the program says: calls by caller, and those of them with null.
type nullsTruth struct{ always, seldom, only struct{ calls, nulls int64 } }

// compare checks which checks have met null, and what is said of their callers. The JVM had counted a part of the calls
// when it was asked: shares are compared.
func (truth nullsTruth) compare(t *testing.T, seen nullsSeen, told bool) {
	t.Helper()
	share := func(part *int64, of int64) float64 {
		if part == nil || of == 0 {
			return -1
		}
		return float64(*part) / float64(of)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if got < want-0.01 || got > want+0.05 {
			t.Errorf("%s: null at most in %.3f of the calls, and it was in %.3f", what, got, want)
		}
	}
	found := make(map[string]int)
	for _, s := range seen.Nulls {
		name := strings.TrimPrefix(s.Method, "Nulls.")
		if s.Passed {
			name = "passed by " + name
		}
		found[name]++
		switch name {
		case "test":
			near("test", share(s.Most, s.Calls), float64(truth.always.nulls+truth.seldom.nulls)/float64(truth.always.calls+truth.seldom.calls))
			for _, c := range s.Callers {
				if c.Only || c.Passes != told {
					t.Errorf("%+v is said of a caller of test", c)
				}
				if c.Most != nil && c.Method == "Nulls.seldom" && share(c.Most, c.Calls) < float64(truth.seldom.nulls)/float64(truth.seldom.calls) {
					t.Errorf("seldom passes null in at most %d of %d calls", *c.Most, c.Calls)
				}
			}
		case "cast":
			near("cast", share(s.Most, s.Calls), float64(truth.only.nulls)/float64(truth.only.calls))
			if len(s.Callers) != 1 || !s.Callers[0].Only || s.Callers[0].Passes != told {
				t.Errorf("cast has the callers %+v", s.Callers)
			}
		}
	}
	if found["test"] != 1 || found["cast"] != 1 || found["never"] != 0 {
		t.Errorf("null was seen at %v", found)
	}
	for _, caller := range []string{"always", "seldom", "only"} {
		if has := found["passed by "+caller] > 0; has != told {
			t.Errorf("that %s passes null is told: %v, want %v", caller, has, told)
		}
	}
}
