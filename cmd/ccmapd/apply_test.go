package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ccmapd/ccmapd/internal/jvm/attach"
	"github.com/ccmapd/ccmapd/internal/jvm/jvmtest"
)

// applied is what the report of apply says.
type applied struct {
	Hints []struct {
		Action, Callee, Root, Outcome, Words string
	} `json:"hints"`
	CPU *struct {
		Before     int64   `json:"before_ns"`
		After      int64   `json:"after_ns"`
		Detectable float64 `json:"detectable_points"`
		Methods    []struct {
			Method string  `json:"method"`
			Before float64 `json:"before_percent"`
		} `json:"methods"`
	} `json:"cpu"`
}

// TestHintsEndToEnd finds a polluted call in a running JVM, gives hints to its compiler, and
// sees by the JVM's own events and by the inlining that it dumps that the call is clean.
func TestHintsEndToEnd(t *testing.T) {
	t.Parallel()
	for _, jdk := range jvmtest.InTurn(t) {
		t.Run(jdk.Name, func(t *testing.T) {
			jvm := jdk.Start(t, []string{"-XX:CompileCommand=quiet", "-XX:CompileCommand=DumpReplay,Work.circles"}, "Work")
			awaitInlined(t, jvm.Dir, "Work$Sq area")
			hints := findHints(t, jvm)
			dumped := len(replays(t, jvm.Dir))
			checkApplied(t, applyToWork(t, jvm, hints))
			after := replays(t, jvm.Dir)
			if len(after) <= dumped {
				t.Fatal("Work.circles was not compiled again")
			}
			if tree := after[len(after)-1]; strings.Contains(tree, "Work$Sq area") || !strings.Contains(tree, "Work$Ci area") {
				t.Errorf("inlined now: %s", tree)
			}
			checkWithdrawn(t, jdk, jvm.PID)
			checkThrown(t, jvm)
		})
	}
}

// findHints samples the program until there are samples enough for hints, and returns their
// file. How much they can save is not asked: what the JVM has compiled when, on a busy machine, tells.
func findHints(t *testing.T, jvm *jvmtest.JVM) string {
	t.Helper()
	profile, hints := filepath.Join(jvm.Dir, "work.json"), filepath.Join(jvm.Dir, "hints.json")
	for duration := 2 * time.Second; ; duration *= 2 {
		ccmapdOK(t, "attach", strconv.Itoa(jvm.PID), "-d", duration.String(), "-i", "1ms", "--tune=false", "--max-host-overhead", "0", "-o", profile)
		ccmapdOK(t, "hints", profile, "--least", "0.01", "--json", "-o", hints)
		text, err := os.ReadFile(hints)
		switch {
		case err != nil:
			t.Fatal(err)
		case strings.Contains(string(text), "Work$Sq.area()I"):
			return hints
		case duration > time.Minute:
			t.Fatalf("no hint: %s\n%s", text, ccmapdOK(t, "receivers", profile))
		}
	}
}

// ccmapdOK runs a command that must succeed.
func ccmapdOK(t *testing.T, args ...string) string {
	t.Helper()
	code, stdout, stderr := runWith(args, nil)
	if code != exitOK {
		t.Fatalf("ccmapd %s: %d\n%s%s", strings.Join(args, " "), code, stdout, stderr)
	}
	return stdout
}

// replays returns what was inlined in each compilation that C2 has dumped, the last at the end.
func replays(t *testing.T, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "replay_pid*_compid*.log"))
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`compid([0-9]+)`)
	trees := make(map[int]string)
	last := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		id, _ := strconv.Atoi(number.FindStringSubmatch(name)[1])
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "compile Work circles") { // written last
				trees[id], last = line, max(last, id)
			}
		}
	}
	var sorted []string
	for id := range last + 1 {
		if tree, ok := trees[id]; ok {
			sorted = append(sorted, tree)
		}
	}
	return sorted
}

// awaitInlined waits until C2 has inlined something into circles.
func awaitInlined(t *testing.T, dir, what string) {
	t.Helper()
	for begin := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if strings.Contains(strings.Join(replays(t, dir), ""), what) {
			return
		}
		if time.Since(begin) > 5*time.Minute {
			t.Fatalf("C2 has not inlined %s: %q", what, replays(t, dir))
		}
	}
}

// applyToWork applies hints. Once there are directives, it makes the program run what it has
// never run, so that its code is compiled anew.
func applyToWork(t *testing.T, jvm *jvmtest.JVM, hints string) *applied {
	t.Helper()
	var report applied
	done := make(chan error, 1)
	go func() {
		code, stdout, stderr := runAlone(t, "apply", hints, strconv.Itoa(jvm.PID), "-d", "5s", "--wait", "5m", "--json")
		if code != exitOK {
			done <- fmt.Errorf("exit code %d: %s", code, stderr)
			return
		}
		done <- json.Unmarshal([]byte(stdout), &report)
	}()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for told := false; ; {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			return &report
		case <-tick.C:
		}
		if !told && directives(t, jvm.PID) > 1 {
			jvm.Tell(t, "go")
			told = true
		}
	}
}

func checkApplied(t *testing.T, report *applied) {
	t.Helper()
	taken := make(map[string]bool)
	for _, h := range report.Hints {
		if strings.HasPrefix(h.Root, "Work.circles(") && h.Outcome == "taken" {
			taken[h.Action+" "+h.Callee[:strings.Index(h.Callee, "(")]] = strings.Contains(h.Words, "CompileCommand")
		}
	}
	if !taken["inline Work.call"] || !taken["keep out Work$Sq.area"] {
		t.Errorf("outcomes: %+v", report.Hints)
	}
	cpu := report.CPU
	if cpu == nil || cpu.Before <= 0 || cpu.After <= 0 || cpu.Detectable <= 0 || len(cpu.Methods) == 0 || cpu.Methods[0].Before <= 0 {
		t.Errorf("CPU time: %+v", cpu)
	}
}

// checkWithdrawn checks that nothing of ours is left in the JVM.
func checkWithdrawn(t *testing.T, jdk jvmtest.JDK, pid int) {
	t.Helper()
	if n := directives(t, pid); n != 1 {
		t.Errorf("%s: %d directives are left", jdk.Name, n)
	}
	if list := jcmd(t, pid, "JFR.check"); strings.Contains(list, "ccmapd") {
		t.Errorf("%s: a recording is left: %s", jdk.Name, list)
	}
}

// checkThrown checks that the JVM's count of code that was thrown away is in a profile.
func checkThrown(t *testing.T, jvm *jvmtest.JVM) {
	t.Helper()
	profile := filepath.Join(jvm.Dir, "after.json")
	ccmapdOK(t, "attach", strconv.Itoa(jvm.PID), "-d", "1s", "-o", profile)
	var listed struct {
		Points []struct {
			Kind  string
			Count int64
		}
	}
	text := ccmapdOK(t, "points", "--json", "--kind", "thrown", profile, "Work.circles")
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed.Points) != 1 || listed.Points[0].Count < 1 {
		t.Errorf("code of Work.circles was thrown away: %v\n%s", err, text)
	}
}

// directives counts the JVM's directives, with its default.
func directives(t *testing.T, pid int) int {
	return strings.Count(jcmd(t, pid, "Compiler.directives_print"), "matching: ")
}

// jcmd sends a diagnostic command.
func jcmd(t *testing.T, pid int, line string) string {
	t.Helper()
	target, err := attach.Open(pid)
	if err != nil {
		t.Fatal(err)
	}
	defer target.Close()
	answer, err := target.Jcmd(t.Context(), time.Minute, line)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}
