package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Every workload finds its own results correct, from several threads.
func TestWorkloadsCheckThemselves(t *testing.T) {
	t.Parallel()
	if len(workloads) != 14 {
		t.Errorf("%d workloads; the paper's table has 14 rows", len(workloads))
	}
	for name := range workloads {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := (options{workload: name, threads: 3, rounds: 20, seed: 7}).run(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestRunPrintsItsCPUTime(t *testing.T) {
	t.Parallel()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"-workload", "boolean", "-rounds", "10"}, &stdout, &stderr); code != 0 {
		t.Fatalf("exits with %d: %s", code, &stderr)
	}
	var got outcome
	if err := json.Unmarshal(stdout.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Workload != "boolean" || got.Rounds != 10 || got.CPU <= 0 {
		t.Errorf("printed %+v", got)
	}
}

func TestRunRefusesUnknownWorkload(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	if code := run([]string{"-workload", "decimal"}, nil, &stderr); code != 1 || !strings.Contains(stderr.String(), "decimal") {
		t.Errorf("exits with %d: %s", code, &stderr)
	}
}
