package process

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestFacts looks at this process, which knows better.
func TestFacts(t *testing.T) {
	t.Parallel()
	got, err := FactsOf(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want := Facts{
		PID: os.Getpid(), Parent: os.Getppid(), UID: os.Geteuid(), Dumpable: true,
		Owner: Owner{UID: os.Geteuid(), GID: os.Getegid(), Traceable: os.Geteuid() != 0}, // root has capabilities

		Name: filepath.Base(program)[:min(15, len(filepath.Base(program)))], Executable: program, CommandLine: os.Args,
		Started: got.Started, Cgroup: got.Cgroup, Unit: got.Unit,
	}
	if diff := cmp.Diff(want, got); diff != "" || got.Started == 0 {
		t.Errorf("started %d (-want +got):\n%s", got.Started, diff)
	}
	began, err := got.Begin()
	if age := time.Since(began); err != nil || age < -time.Second || age > 24*time.Hour {
		t.Errorf("began at %v, %v", began, err)
	}
	pids, err := PIDs()
	if err != nil || !slices.IsSorted(pids) || !slices.Contains(pids, os.Getpid()) || !slices.Contains(pids, 1) {
		t.Errorf("processes %v, %v", pids, err)
	}
	if _, err := FactsOf(1 << 30); err == nil {
		t.Error("facts of no process")
	}
}

func TestCgroups(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][2]string{
		"":                               {"", ""},
		"0::/\n":                         {"/", ""},
		"0::/system.slice/web.service\n": {"/system.slice/web.service", "web.service"},
		"4:cpu,cpuacct:/x\n1:name=systemd:/user.slice/user-7.slice/user@7.service/app.slice/app.scope/a:b\n0::/\n": {
			"/user.slice/user-7.slice/user@7.service/app.slice/app.scope/a:b", "app.scope"},
		"0::/kubepods.slice/pod1.slice\n": {"/kubepods.slice/pod1.slice", ""},
		"0:\n":                            {"", ""},
		"0::web.service\n":                {"web.service", "web.service"},
	} {
		if path := cgroupOf(text); path != want[0] || unitOf(path) != want[1] {
			t.Errorf("%q: path %q, unit %q; want %q", text, path, unitOf(path), want)
		}
	}
}
