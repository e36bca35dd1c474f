package main

import (
	"bytes"
	"encoding/json"
	"github.com/ccmapd/ccmapd/internal/perfevent"
	"github.com/ccmapd/ccmapd/internal/testrun"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// worker handles one unit after the other, some thousand a second, with pauses. Its units take so many rounds.
const worker = `package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

var sink atomic.Uint64
var handled atomic.Uint64

//go:noinline
func round(x uint64) uint64 { return x*6364136223846793005 + 1442695040888963407 }

//go:noinline
func handle(rounds int) {
	x := sink.Load()
	for range rounds {
		x = round(x)
	}
	sink.Store(x)
	handled.Add(1)
}

func main() {
	rounds, _ := strconv.Atoi(os.Args[1])
	go http.ListenAndServe(os.Args[2], http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE handled_total counter\nhandled_total %d\n", handled.Load())
	}))
	for {
		for range 20 {
			handle(rounds)
		}
		time.Sleep(3 * time.Millisecond)
	}
}
`

// startWorkers builds the worker, and starts one for each number of rounds.
func startWorkers(t *testing.T, rounds ...int) (pids []string) {
	t.Helper()
	dir := t.TempDir()
	source, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "worker")
	if err := os.WriteFile(source, []byte(worker), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("build worker: %v: %s", err, out)
	}
	for _, n := range rounds {
		cmd := exec.CommandContext(t.Context(), program, strconv.Itoa(n), "127.0.0.1:0")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
		pids = append(pids, strconv.Itoa(cmd.Process.Pid))
	}
	return pids
}

// TestMeasureFindsALoop measures programs of which one does twice the rounds for a unit. The bounds are wide: other
// work on the machine changes the CPU time for a unit, but not that much.
func TestMeasureFindsALoop(t *testing.T) {
	testrun.Breakpoints(t, perfevent.Silent())
	pids := startWorkers(t, 20_000, 40_000, 20_000)
	var out, errs bytes.Buffer
	code := run([]string{"pgo", "measure", "--before", pids[0], "--after", pids[1], "--same", pids[2],
		"--per", "main.handle", "-d", "3s", "--period", "100ms", "--json"}, strings.NewReader(""), &out, &errs)
	if strings.Contains(errs.String(), "not permitted") {
		t.Skip(errs.String())
	}
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, &errs)
	}
	var r pgoMeasured
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	t.Logf("%s", &out)
	if r.Verdict != moreTime || r.Effect.Low < 20 || r.Effect.Change < 50 || r.Effect.Change > 200 || r.Units == 0 || r.Same == nil || !r.OneBuild {
		t.Errorf("twice the work for a unit: %s", &out)
	}
}

func TestMeasureRefuses(t *testing.T) {
	self := strconv.Itoa(os.Getpid())
	for want, args := range map[string][]string{
		"no unit of work": {"--per", "activations"},
		"ccmapd_activations_total is no unit of work": {"--per-metric", "ccmapd_activations_total"},
		"a unit of work":            {},
		"needs --before-url":        {"--per-metric", "a_total"},
		"no function of this name":  {"--per", "main.nothing"},
		"at least 8 times --period": {"--per", "main.handle", "-d", "2s"},
	} {
		var out, errs bytes.Buffer
		args := append([]string{"pgo", "measure", "--before", self, "--after", self}, args...)
		if code := run(args, strings.NewReader(""), &out, &errs); code == 0 || !strings.Contains(errs.String(), want) {
			t.Errorf("%v: exit code %d, %q, want %q", args, code, &errs, want)
		}
	}
}
